"""What the tests share: topics, records and an independent reader on the real broker."""
