"""A real Apache Kafka on this machine, without Docker, to try things out."""
