"""A class data sharing (AppCDS) archive of the broker's Java classes, with which it starts in half the time.

It is created once for each machine, beside the jars, by a broker that is started for this. Java checks whether the
archive fits its version and the jars, and otherwise starts without it.
"""

import contextlib
import tempfile
from pathlib import Path

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.tools.doctor.installed import Java

from . import settings
from .fetching import Announce, missing
from .ports import free_port
from .server import Broker
from .settings import CONTROLLER, JVM_OPTIONS, PLAIN

_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_STOP_SECONDS = 60.0


def java_program(java: Java, jars: Path, announce: Announce) -> list[str]:
    """The beginning of a command that runs one of Kafka's classes, from an archive, which is created if there is none.

    If it cannot be created, Java starts without: slower, but no worse.
    """
    archive = jars.with_name(f"{jars.name}-java-{java.version}.jsa")
    with contextlib.suppress(OSError, OrderedKafkaError):
        with missing(archive) as make:
            if make:
                announce("Creating a class data sharing archive, so that brokers start in half the time (only once).")
                _make(java, jars, archive)
        if archive.stat().st_size:
            return _command(java, jars, f"-XX:SharedArchiveFile={archive}", *_QUIETLY)
    return _command(java, jars)


def _command(java: Java, jars: Path, *options: str) -> list[str]:
    return [str(java.executable), *JVM_OPTIONS, *options, "-cp", f"{jars}/*"]


def _make(java: Java, jars: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=archive.parent) as directory:
        place, fresh = Path(directory), Path(directory, archive.name)
        ports = {PLAIN: free_port()}
        ports[CONTROLLER] = free_port(*ports.values())
        broker = Broker(1, place, ports, settings.properties(1, [ports], ports, {}, place))
        # What formats the disk, the first time, has classes of its own, which are not worth writing down.
        for options in ((), (f"-XX:ArchiveClassesAtExit={fresh}", *_QUIETLY)):
            broker.prepare(_command(java, jars, *options), settings.new_cluster_id())
        try:
            broker.start()
        finally:
            broker.stop(_STOP_SECONDS)
        fresh.touch()  # a Java that writes none is not asked again at each start
        fresh.replace(archive)
