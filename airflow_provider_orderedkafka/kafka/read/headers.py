"""Headers, as Python objects or as an Arrow array.

Kafka allows any bytes as a header's name, but the Python client reads UTF-8 only. Any other name becomes `UNREADABLE`,
with the header's value, so that its record can be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from numpy.typing import NDArray

Header = tuple[str, bytes | None]
Lists = Sequence[list[Header] | None]

UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of each record, or None, and their size in bytes."""

    lists: Lists
    sizes: NDArray[np.int64]

    def array(self, places: NDArray[np.intp]) -> Any:
        return pa.array([self.lists[at] for at in places.tolist()], HEADERS)


def headers_of(messages: Sequence[Message]) -> list[list[Header] | None]:
    found: list[list[Header] | None] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, messages[len(found) :]))
        except SystemError:  # raised by the next message: one of its names is not UTF-8
            found.append(_readable(messages[len(found)]))
    return found


def _readable(message: Message) -> list[Header]:
    """Read the headers again without unreadable names: touching one would end the process."""
    pairs: list[Any] = message.headers() or []
    return [(UNREADABLE if repr(pair).startswith("(<NULL>") else pair[0], pair[1]) for pair in pairs]
