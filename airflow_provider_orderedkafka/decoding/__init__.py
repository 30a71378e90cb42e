"""Bytes to columns: Avro, JSON, JSON Schema and Protobuf, with a schema registry or without."""
