"""Batches of a range as rows of tables and files."""
