"""A real PostgreSQL, and a real Debezium that reads it, in Kafka Connect: Maven fetches its jars once a machine."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_orderedkafka.tools.doctor.installed import find_java
from broker.fetching import cache_directory, missing, run_ivy
from broker.ports import HOST, free_port
from support.registry import VERSION

DEBEZIUM, CONNECT = "3.2.0.Final", "4.1.1"
"""The newest Debezium that runs with Java 17, and a Connect that it knows."""

MODULES = {
    "org.apache.kafka#connect-runtime": CONNECT,
    "org.apache.kafka#connect-json": CONNECT,
    "org.slf4j#slf4j-simple": "2.0.6",
    "io.debezium#debezium-connector-postgres": DEBEZIUM,
    "io.apicurio#apicurio-registry-utils-converter": VERSION,
}


def converters(name: str, **settings: str) -> dict[str, str]:
    """Of keys and values."""
    own = {"": name, **{f".{each}": value for each, value in settings.items()}}
    return {f"{side}.converter{each}": value for side in ("key", "value") for each, value in own.items()}


def json(schemas: str) -> dict[str, str]:
    return converters("org.apache.kafka.connect.json.JsonConverter", **{"schemas.enable": schemas})


def avro(registry: str) -> dict[str, str]:
    """As Confluent's serialiser writes it."""
    settings = {"url": f"{registry.partition('/ccompat')[0]}/registry/v2", "auto-register": "true"}
    settings |= {"find-latest": "true", "as-confluent": "true", "use-id": "contentId", "headers.enabled": "false"}
    own = converters(
        "io.apicurio.registry.utils.converter.AvroConverter",
        **{f"apicurio.registry.{name}": value for name, value in settings.items()},
    )
    return {**own, "schema.name.adjustment.mode": "avro"}


PROGRAMS = Path("/usr/lib/postgresql")
SECONDS = 120


def there() -> bool:
    return any(PROGRAMS.glob("*/bin/postgres"))


@dataclass(frozen=True)
class Postgres:
    """`sql` runs statements, each of them a transaction of its own unless it begins one."""

    folder: Path
    port: int

    def sql(self, text: str) -> list[str]:
        command = ["psql", "-h", HOST, "-p", str(self.port), "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1"]
        found = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert not found.returncode, found.stderr
        return found.stdout.splitlines()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a database that tells its changes; as root its processes are of the user `postgres`."""
    programs = max(PROGRAMS.glob("*/bin"), key=lambda each: int(each.parent.name))
    folder, port = Path(tempfile.mkdtemp(prefix="orderedkafka-postgres-")), free_port()
    user = "postgres" if not os.getuid() else pwd.getpwuid(os.getuid()).pw_name
    shutil.chown(folder, user)
    flags = f"-p {port} -h {HOST} -k {folder} -c wal_level=logical -c fsync=off"
    control = [str(programs / "pg_ctl"), "-D", str(folder / "data"), "-l", str(folder / "log"), "-w"]

    def run(*command: str) -> None:
        subprocess.run(command, user=user, cwd=folder, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)

    try:
        run(str(programs / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync")
        run(*control, "-o", flags, "start")
        yield Postgres(folder, port)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], user=user, cwd=folder, check=False, timeout=SECONDS)
        shutil.rmtree(folder)


@dataclass
class Connectors:
    """Debezium in one worker of Kafka Connect: connectors by their names, with settings of their own.

    It can be killed and started again, and keeps its places in a file. A table's changes go to `<name>.public.<table>`.
    """

    folder: Path
    servers: str
    database: Postgres
    settings: Mapping[str, Mapping[str, str]]
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; return when each of them reads the database."""
        worker = {
            "bootstrap.servers": self.servers,
            "listeners": f"http://{HOST}:{free_port()}",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "only_scan",
            **json("false"),
        }
        files = [self._file("worker", worker)]
        files += [self._file(name, {**self._connector(name), **own}) for name, own in self.settings.items()]
        program = [str(find_java().executable), "-Xmx800m", "-XX:TieredStopAtLevel=1", "-cp", f"{_jars()}/*"]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(
                [*program, "org.apache.kafka.connect.cli.ConnectStandalone", *files],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        slots = "SELECT count(*) FROM pg_replication_slots WHERE active"
        self.wait(lambda: self.database.sql(slots) == [str(len(self.settings))])

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not until():
            said = (self.folder / "log").read_text(errors="replace")
            alive = self.process is not None and self.process.poll() is None
            assert alive, said[-3_000:]
            assert time.monotonic() < deadline, said[-3_000:]
            time.sleep(0.2)

    def _connector(self, name: str) -> dict[str, str]:
        return {
            "name": name,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": HOST,
            "database.port": str(self.database.port),
            "database.dbname": "postgres",
            "database.user": "postgres",
            "database.password": "-",
            "plugin.name": "pgoutput",
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "snapshot.mode": "when_needed",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "2",
            "poll.interval.ms": "50",
            "slot.retry.delay.ms": "500",
        }

    def _file(self, name: str, found: Mapping[str, str]) -> str:
        file = self.folder / f"{name}.properties"
        file.write_text("\n".join(f"{setting}={value}" for setting, value in found.items()))
        return str(file)


def _jars() -> Path:
    folder = cache_directory() / f"debezium-{DEBEZIUM}-connect-{CONNECT}"
    with missing(folder) as fetch:
        if fetch:
            named = ([*each.split("#"), version] for each, version in MODULES.items())
            lines = [f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default"/>' for org, name, rev in named]
            module = '<ivy-module version="2.0"><info organisation="orderedkafka" module="debezium"/><dependencies>'
            with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as directory:
                text = f"{module}{''.join(lines)}</dependencies></ivy-module>"
                run_ivy(find_java(), text, Path(directory), ("jar", "bundle"))
                Path(directory, "jars").rename(folder)
    return folder
