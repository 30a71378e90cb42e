"""The order of records, and how a range is cut in it."""
