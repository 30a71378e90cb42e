"""The Spark session, its executors and its failures."""
