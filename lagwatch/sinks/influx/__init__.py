"""The InfluxDB sink."""
