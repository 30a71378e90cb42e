"""Scenarios that read like what they say: records in, expected order out.

A line is a partition: `a[0]: 1 3 2` are three records with these times, in the order they are written; `{1 2}` is a
committed transaction, `<1 2>` an aborted one, `(1 2` one that stays open, `F` a time far in the future. A record is
called by its partition and its number in the line, `a0.2`; with `!` after it in the expectation, it is late.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from support.records import Record, Records
from support.topics import Topics

BASE = 1_700_000_000_000
FUTURE = 4_000_000_000_000
_TOKEN = re.compile(r"[{}<>()]|F|\d+")
_ENDS = {"{": "}", "<": ">", "(": ")"}


@dataclass(frozen=True)
class Line:
    """One partition of a scenario."""

    topic: str
    partition: int
    text: str


def lines(scenario: str) -> list[Line]:
    """The partitions that a scenario writes to."""
    found = []
    for line in filter(None, map(str.strip, scenario.splitlines())):
        name, text = line.split(":", 1)
        topic, partition = re.fullmatch(r"(\w+)\[(\d+)\]", name.strip()).groups()
        found.append(Line(topic, int(partition), text))
    return found


class World:
    """The topics of one scenario, by the short names it uses."""

    def __init__(self, topics: Topics, records: Records, stack: ExitStack) -> None:
        self._topics = topics
        self._records = records
        self._stack = stack
        self._counts: dict[tuple[str, int], int] = {}
        self.names: dict[str, str] = {}

    def create(self, partitions: Mapping[str, int], **config: Any) -> None:
        """Make the topics; the names sort as the short ones do."""
        for short in sorted(partitions):
            name = self._topics.create(short, partitions[short], {k.replace("_", "."): v for k, v in config.items()})
            self.names[short] = name

    def write(self, scenario: str) -> None:
        """Write what the scenario says; topics that do not exist yet get as many partitions as it names."""
        wanted = lines(scenario)
        new = {line.topic for line in wanted} - set(self.names)
        self.create({topic: 1 + max(ln.partition for ln in wanted if ln.topic == topic) for topic in new})
        for line in wanted:
            self._write(line)

    def _write(self, line: Line) -> None:
        plain: list[Record] = []
        tokens = iter(_TOKEN.findall(line.text))
        for token in tokens:
            if token not in _ENDS:
                plain.append(self._record(line, token))
                continue
            self._plainly(line, plain)
            inside = [self._record(line, t) for t in iter(lambda: next(tokens, ")"), _ENDS[token])]
            self._in_transaction(line, token, inside)
        self._plainly(line, plain)

    def _plainly(self, line: Line, plain: list[Record]) -> None:
        if plain:
            self._records.produce(self.names[line.topic], plain)
            plain.clear()

    def _in_transaction(self, line: Line, token: str, inside: list[Record]) -> None:
        transaction = self._stack.enter_context(self._records.transaction())
        transaction.produce(self.names[line.topic], inside)
        if token == "{":
            transaction.commit()
        elif token == "<":
            transaction.abort()

    def _record(self, line: Line, token: str) -> Record:
        number = self._counts[line.topic, line.partition] = self._counts.get((line.topic, line.partition), 0) + 1
        time = FUTURE if token == "F" else BASE + int(token)
        return Record(f"{line.topic}{line.partition}.{number}".encode(), time, line.partition)

    @property
    def subscribe(self) -> str:
        """All topics, as the option takes them."""
        return ",".join(self.names.values())


def called(rows: Iterable[Any]) -> str:
    """Rows as an expectation writes them."""
    return " ".join(row.value.decode() + ("!" if row.late else "") for row in rows)
