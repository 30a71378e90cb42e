"""The source and the sink for PySpark."""
