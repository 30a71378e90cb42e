"""A real Kafka broker on this machine, for the quickstart and the tests."""
