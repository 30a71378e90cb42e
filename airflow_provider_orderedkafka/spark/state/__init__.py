"""Documents beside a checkpoint, and the lease on it."""
