"""Which releases of Kafka can be run here, and which broker settings are younger than the oldest of them."""

import re
from collections.abc import Iterable
from typing import Final

from airflow_provider_orderedkafka.errors import SettingError

DEFAULT: Final = "4.1.1"
_OLDEST: Final = "3.9.0"
_SINCE: Final = {
    "share.coordinator.state.topic.min.isr": "4.0.0",
    "share.coordinator.state.topic.num.partitions": "4.0.0",
    "share.coordinator.state.topic.replication.factor": "4.0.0",
}


def checked_version(version: str) -> str:
    """Return the version; raise where it is none, or none that can be run here."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) < _numbers(_OLDEST):
        raise SettingError(
            f"version={version!r} must be a release of Apache Kafka from {_OLDEST} on, such as {DEFAULT!r}"
        )
    return version


def too_new(version: str, properties: Iterable[str]) -> set[str]:
    """Those of the properties that this version does not know yet."""
    return {name for name in properties if _numbers(_SINCE.get(name, _OLDEST)) > _numbers(version)}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
