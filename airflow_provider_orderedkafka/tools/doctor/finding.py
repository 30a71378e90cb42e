"""What the doctor is asked to try, its findings, and how they are printed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Tries:
    """What else is tried: topics to read and to write, a load's group, a checkpoint's location.

    And all of that from Spark, by another spark-submit than the connection's where one is named. `formats` are what
    loads decode.
    """

    topics: Sequence[str] = ()
    outputs: Sequence[str] = ()
    load: str = ""
    checkpoint: str = ""
    spark: bool = False
    spark_binary: str = ""
    formats: Sequence[str] = ()


NOTHING_MORE = Tries()


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; everything that is not ok has a remedy."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.status == "ok") == bool(self.remedy):
            raise ValueError(f"{self.name}: {self.status!r} with remedy {self.remedy!r}")


def must_be_mended(findings: Sequence[Finding]) -> bool:
    return any(finding.status == "broken" for finding in findings)


def as_json(findings: Sequence[Finding]) -> str:
    document = {"ok": not must_be_mended(findings), "findings": [asdict(finding) for finding in findings]}
    return json.dumps(document, indent=2)


def as_table(findings: Sequence[Finding]) -> str:
    """The findings for people: a row for each, and its remedy below."""
    name_width = max(len(finding.name) for finding in findings)
    status_width = max(len(finding.status) for finding in findings)
    indent = " " * (name_width + status_width + 4)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.name:<{name_width}}  {finding.status:<{status_width}}  {finding.found}")
        if finding.remedy:
            lines.append(f"{indent}-> {finding.remedy}")  # one line, however long: commands are copied from it
    return "\n".join([*lines, "", _summary(findings)])


def _summary(findings: Sequence[Finding]) -> str:
    counts = {status: sum(f.status == status for f in findings) for status in ("broken", "warning")}
    if not any(counts.values()):
        return "Everything is fine."
    return f"{counts['broken']} broken, {counts['warning']} warnings."
