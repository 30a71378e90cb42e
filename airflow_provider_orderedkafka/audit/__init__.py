"""Compare what lies in an output with what was in its source: by another path than the one that wrote it."""
