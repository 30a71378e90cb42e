"""What a cluster has now: topics, offsets, ends, groups, the log."""
