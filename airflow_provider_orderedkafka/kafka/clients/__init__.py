"""Kafka clients: configuration, pools, and requests with retries."""
