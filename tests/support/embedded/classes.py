"""A class data sharing (AppCDS) archive of the broker's Java classes, with which it starts in half the time.

It is created once for each machine, beside the jars, by a broker that is started for this. Java checks whether the
archive fits its version and the jars, and otherwise starts without it.
"""

import contextlib
import fcntl
import tempfile
from dataclasses import replace
from pathlib import Path

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.tools.broker.java import Announce
from airflow_provider_orderedkafka.tools.broker.local_kafka import new_cluster_id
from support.embedded.broker import Broker, Installation
from support.embedded.settings import choose_ports

_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_STOP_SECONDS = 60.0


def archive(installation: Installation) -> Path:
    jars = installation.jars
    return jars.with_name(f"{jars.name}-java-{installation.java.version}.jsa")


def quick(installation: Installation, announce: Announce) -> Installation:
    """Let the installation start from an archive, which is created if there is none.

    If it cannot be created, the installation is returned as it is: slower, but no worse.
    """
    made = archive(installation)
    with contextlib.suppress(OSError, OrderedKafkaError):
        if not made.exists():
            _make_once(installation, made, announce)
        if made.stat().st_size:
            return replace(installation, options=(f"-XX:SharedArchiveFile={made}", *_QUIETLY))
    return installation


def _make_once(installation: Installation, made: Path, announce: Announce) -> None:
    """Create the archive in one process, while others wait for it."""
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            announce("Creating a class data sharing archive, so that brokers start in half the time (only once).")
            _make(installation, made)


def _make(installation: Installation, made: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=made.parent) as directory:
        fresh = Path(directory) / made.name
        broker, cluster_id = Broker(1, choose_ports(1, None), Path(directory), {}), new_cluster_id()
        writing = replace(installation, options=(f"-XX:ArchiveClassesAtExit={fresh}", *_QUIETLY))
        for each in (installation, writing):  # what formats the disk has classes of its own, not worth writing down
            broker.prepare_for(each, cluster_id)
        try:
            broker.start()
        finally:
            broker.stop(_STOP_SECONDS)
        fresh.touch()  # a Java that writes none is not asked again at each start
        fresh.replace(made)
