"""The Parquet archive: one file per hour, table and cluster."""
