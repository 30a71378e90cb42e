"""Transforms of the examples: a package beside the DAG files travels with the application."""
