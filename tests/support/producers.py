"""A producer that keeps its records in a list, for tests of what is done around one."""

from collections import deque
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException


@dataclass(frozen=True)
class FakeMessage:
    sent: tuple

    def topic(self):
        return self.sent[0]

    def partition(self):
        return self.sent[3]

    def value(self):
        return self.sent[1]

    def key(self):
        return self.sent[2]


@dataclass
class FakeProducer:
    """Takes `room` records at a time and acknowledges `speed` of them at each look; those in `refuses` fail."""

    room: int = 1_000
    speed: int = 1_000
    refuses: frozenset = frozenset()
    gives_up: Exception | None = None
    arrived: list = field(default_factory=list)
    closed: bool = False
    waiting: deque = field(default_factory=deque)

    def produce(self, *arguments):
        topic, value, key, partition, callback, _, timestamp, headers = arguments
        assert not self.closed, "a closed producer was used"
        if len(self.waiting) >= self.room:
            raise BufferError
        self.waiting.append(((topic, value, key, partition, timestamp, headers), callback))

    def poll(self, seconds):
        if self.gives_up is not None:
            self.gives_up, error = None, self.gives_up
            raise error
        for _ in range(min(self.speed, len(self.waiting))):
            sent, callback = self.waiting.popleft()
            if sent[1] in self.refuses:
                callback(KafkaError(KafkaError.INVALID_RECORD, "refused"), FakeMessage(sent))
            else:
                self.arrived.append(sent)

    def flush(self, seconds):
        self.poll(seconds)
        return len(self.waiting)

    def purge(self, in_queue=True, in_flight=True):
        for sent, callback in self.waiting:
            callback(KafkaError(KafkaError._PURGE_QUEUE, "purged"), FakeMessage(sent))
        self.waiting.clear()

    def abort_transaction(self, seconds):
        raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED))

    def close(self):
        self.closed = True

    def __len__(self):
        return len(self.waiting)
