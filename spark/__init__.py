"""The nightly PySpark pipeline over the Parquet archive."""
