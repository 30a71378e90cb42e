"""Class-data sharing (AppCDS) for the broker, which starts from an archive of its classes in half the time.

The archive is written once for a machine, beside the jars, by a broker that is started for that alone. Java itself sees
whether it fits its own version and the jars; where it does not, it starts as if there were none.
"""

import contextlib
import fcntl
import tempfile
from dataclasses import replace
from pathlib import Path

from airflow_provider_orderedkafka.embedded.broker import Broker, Installation
from airflow_provider_orderedkafka.embedded.jars import Announce
from airflow_provider_orderedkafka.embedded.layout import new_cluster_id
from airflow_provider_orderedkafka.embedded.settings import Settings, choose_ports
from airflow_provider_orderedkafka.errors import OrderedKafkaError

_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_STOP_SECONDS = 60.0


def archive(installation: Installation) -> Path:
    """Where the classes of this Kafka and this Java are, or would be."""
    jars = installation.jars
    return jars.with_name(f"{jars.name}-java-{installation.java.version}.jsa")


def quick(installation: Installation, announce: Announce) -> Installation:
    """Return the installation that starts from its classes, written down first where they never were.

    Where they cannot be written, the installation is returned as it is: it is slower, and no worse.
    """
    made = archive(installation)
    with contextlib.suppress(OSError, OrderedKafkaError):
        if not made.exists():
            _make_once(installation, made, announce)
        if made.stat().st_size:
            return replace(installation, options=(f"-XX:SharedArchiveFile={made}", *_QUIETLY))
    return installation


def _make_once(installation: Installation, made: Path, announce: Announce) -> None:
    """Several processes may ask at once: one writes, the others wait for it."""
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            announce("Letting brokers on this machine start in half the time (some seconds, only this once).")
            _make(installation, made)


def _make(installation: Installation, made: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=made.parent) as directory:
        fresh = Path(directory) / made.name
        settings = Settings(version=installation.version)
        broker, cluster_id = Broker(1, choose_ports(1, None), Path(directory), settings), new_cluster_id()
        writing = replace(installation, options=(f"-XX:ArchiveClassesAtExit={fresh}", *_QUIETLY))
        for each in (installation, writing):  # what formats the disk has classes of its own, not worth writing down
            broker.prepare(each, cluster_id, detached=False)
        try:
            broker.start()
        finally:
            broker.stop(_STOP_SECONDS)
        fresh.touch()  # a Java that writes none is not asked again at each start
        fresh.replace(made)
