"""Headers: as Python objects the way they came, or as an Arrow array.

Kafka lets a header's name be any bytes; its client for Python gives names in UTF-8 alone. Another name comes as
`UNREADABLE`, so that its record can be read at all, with the header's value.
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
        """An Arrow array of those at these places."""
        return pa.array([self.lists[at] for at in places.tolist()], HEADERS)


def headers_of(messages: Sequence[Message]) -> list[list[Header] | None]:
    """The headers of each message."""
    found: list[list[Header] | None] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, messages[len(found) :]))
        except SystemError:  # of the message behind those that were found: it has a name that is not UTF-8
            found.append(_readable(messages[len(found)]))
    return found


def _readable(message: Message) -> list[Header]:
    """Read the headers again, now without unreadable names: touching one would end the process."""
    pairs: list[Any] = message.headers() or []
    return [(UNREADABLE if repr(pair).startswith("(<NULL>") else pair[0], pair[1]) for pair in pairs]
