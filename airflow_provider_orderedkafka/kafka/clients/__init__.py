"""Clients of Kafka: configuration, pools, questions and their answers."""
