"""How rows go from reader to writer."""
