"""The table of JMX beans and the conversion of their values to rows: pure, so it imports no connection."""
