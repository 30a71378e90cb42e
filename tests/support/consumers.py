"""The pool of Kafka consumers, emptied between modules."""

from airflow_provider_orderedkafka.kafka.clients import pools


def close_idle() -> None:
    with pools._idle.held() as found:
        for idle in found.values():
            while idle:
                idle.pop().consumer.close()
