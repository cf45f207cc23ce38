"""The table of JMX beans, the parsing of their values and the conversion to rows: pure, so it imports no connection."""
