"""Compare what lies in an output with what was in its source: the second, small path beside the one that wrote it."""
