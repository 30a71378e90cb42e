"""What a cluster's directory is: its identity, version and ports, so that a restart gives the same cluster."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.tools.broker.java import DEFAULT_VERSION
from airflow_provider_orderedkafka.tools.broker.local_kafka import new_cluster_id
from support.embedded.settings import Ports, checked_version, choose_ports

_FILE = "cluster.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """One cluster: its id, the ports of its brokers in their order, and the version of Kafka."""

    cluster_id: str
    ports: tuple[Ports, ...]
    kafka: str = DEFAULT_VERSION

    @classmethod
    def of(cls, directory: Path, brokers: int, wanted: Sequence[int] | None, kafka: str | None = None) -> Self:
        """Return the layout that the directory has, on the wanted ports where some are given; else a new one."""
        if brokers not in (1, 3):
            raise SettingError(f"brokers={brokers!r}: an embedded cluster has 1 or 3")
        found = cls.load(directory)
        if found is None:
            return cls(
                new_cluster_id(),
                choose_ports(brokers, wanted),
                checked_version(DEFAULT_VERSION if kafka is None else kafka),
            )
        if len(found.ports) != brokers:
            raise SettingError(
                f"{directory} holds a cluster of {len(found.ports)} broker(s), {brokers} were asked for: "
                "take another directory, or as many as it has"
            )
        if kafka not in (None, found.kafka):
            raise SettingError(
                f"{directory} holds a cluster of Kafka {found.kafka}, {kafka} was asked for: take another directory, "
                f"or leave the version out"
            )
        if wanted is None or list(wanted) == [ports.client for ports in found.ports]:
            return found
        return replace(found, ports=choose_ports(brokers, wanted))

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """Return the layout that is written in the directory, or none; raise when it cannot be read."""
        path = directory / _FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            pairs = [Ports(client=int(b["port"]), controller=int(b["controller_port"])) for b in document["brokers"]]
            if document["version"] == _VERSION:
                return cls(str(document["cluster_id"]), tuple(pairs), str(document["kafka"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise cls._unreadable(path, repr(error)) from error
        raise cls._unreadable(path, f"version {document['version']!r}, expected {_VERSION}")

    @staticmethod
    def _unreadable(path: Path, why: str) -> DocumentError:
        return DocumentError(f"{path} cannot be read ({why}): take another directory, or delete this one with its data")

    def save(self, directory: Path) -> None:
        brokers = [{"port": ports.client, "controller_port": ports.controller} for ports in self.ports]
        document = {"version": _VERSION, "cluster_id": self.cluster_id, "kafka": self.kafka, "brokers": brokers}
        written = directory / f".{_FILE}"
        written.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        written.replace(directory / _FILE)
