"""Check what Airflow has, in a process of its own, because Airflow logs and keeps state.

    python -m airflow_provider_orderedkafka.tools.doctor.connections TRIES HOME

TRIES is JSON, HOME is empty where no Airflow was ever set up; the findings are printed as JSON, without any secret.
They are about its connections; about that to Kafka, whether it leads to a broker, and what its principal may do; about
DAG files, which loads they define, and what the services need that run these.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...compat.airflow import server_context
from ...core.notation.spelling import counted
from ...core.notation.subscriptions import Named
from ...errors import OrderedKafkaError, SettingError
from ...job import Job, job_of
from ...kafka.clients.answers import Patience, gather
from ...kafka.clients.pools import admin
from ...kafka.lookup.survey import Brokers
from ...kafka.lookup.topics import discover
from ...kafka.write.settings import check_exactly_once, look_up_outputs
from ...kafka.write.turns import check
from ...load import OrderedLoad
from ...loads.mirror import group_of
from .installed import AS_SAID, Finding, Status, Tries, spark_behind

if TYPE_CHECKING:
    from ...operators.resolve import ResolveOffsetRangeOperator
    from ...services import Service

File = tuple[str, Mapping[str, Any] | None]
_REACHABLE = "Name a location that Airflow's workers, Spark's driver and its executors reach, and let them write there"
_THERE = "Write it with `orderedkafka bundle code/`, or copy it, to where the service reads it"
_TYPES = {"google": "google_cloud_platform"}
"""The types of connections that are not called as the extras are."""
_ANSWER_SECONDS = 10.0
_AIRFLOW_SECONDS, _PARSE_SECONDS = 60, 1_800
_READ, _READ_AND_WRITE = ("READ",), ("READ", "WRITE")


def permissions(config: Mapping[str, str], tries: Tries) -> Iterator[Finding]:
    """A finding for each topic and for the group, with the operation that is missing."""
    for name in tries.topics:
        yield _topic(config, f"topic {name}", name, _READ)
    for name in tries.outputs:
        yield _topic(config, f"output {name}", name, _READ_AND_WRITE)
    if tries.outputs:
        yield _transactions(config, tries)
    if tries.load:
        yield _group(config, group_of(tries.load))


def _topic(config: Mapping[str, str], title: str, name: str, needed: Sequence[str]) -> Finding:
    try:
        (topic,) = discover(config, Named((name,)), _ANSWER_SECONDS).topics
    except OrderedKafkaError as error:
        return Finding(title, "broken", str(error), f"Create it, or allow its principal {' and '.join(needed)} on it")
    return _judged(title, topic.operations, needed, f"{topic.partitions} partitions")


def _transactions(config: Mapping[str, str], tries: Tries) -> Finding:
    """Whether outputs may be written exactly once, which is a load's choice: nothing is broken if they may not."""
    try:
        check_exactly_once(look_up_outputs(Brokers(config), tries.outputs).values())
        check(config, tries.load or "doctor", tuple(tries.outputs))
    except OrderedKafkaError as error:
        return Finding("exactly once", "warning", str(error), "Mend it only if a load has guarantee='exactly_once'")
    return Finding("exactly once", "ok", "its principal may write in transactions")


def _group(config: Mapping[str, str], group: str) -> Finding:
    asked, title = admin(config), f"group {group}"

    def ask(groups: Sequence[str], seconds: float) -> list[Future[Any]]:
        wanted = {"include_authorized_operations": True, "request_timeout": seconds}
        return list(asked.client.describe_consumer_groups(list(groups), **wanted).values())

    try:
        described = gather(asked, ask, [group], Patience(_ANSWER_SECONDS, "what may be done with group"))[group]
    except OrderedKafkaError as error:
        return Finding(title, "broken", str(error), f"Allow its principal READ on group {group!r}")
    operations = frozenset(each.name for each in described.authorized_operations or ())
    return _judged(title, operations, _READ, "exists, or may be created")


def _judged(title: str, operations: frozenset[str], needed: Sequence[str], good: str) -> Finding:
    if not operations:
        return Finding(title, "ok", f"{good}; Kafka does not say what its principal may do")
    if missing := " and ".join(each for each in needed if each not in operations):
        return Finding(title, "broken", f"its principal lacks {missing}", f"Allow {missing} on {title}")
    return Finding(title, "ok", f"{good}; its principal has {' and '.join(needed)}")


_SIGNS_OF_AIRFLOW = ("airflow.cfg", "airflow.db")
_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_SETTINGS_OF_AIRFLOW = ("AIRFLOW_CONFIG", _DATABASE, f"{_DATABASE}_CMD", f"{_DATABASE}_SECRET")


def connections(tries: Tries) -> list[Finding]:
    """Let another process check what Airflow has; without its database, what is in environment variables.

    Nothing where Airflow is not installed.
    """
    if find_spec("airflow") is None:
        return []
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow").expanduser()
    if any((home / name).exists() for name in _SIGNS_OF_AIRFLOW) or any(map(os.environ.get, _SETTINGS_OF_AIRFLOW)):
        return _asked(tries, str(home), os.environ)
    found = f"Airflow was never set up in {home}: only AIRFLOW_CONN_... variables were checked"
    remedy = "Run: airflow db migrate (or set AIRFLOW_HOME to the right directory)"
    with tempfile.TemporaryDirectory() as elsewhere:  # Airflow writes into its home when it is only imported
        findings = _asked(tries, "", {**os.environ, "AIRFLOW_HOME": elsewhere})
    return [Finding("airflow", "warning", found, remedy), *findings]


def _asked(tries: Tries, home: str, environment: Any) -> list[Finding]:
    seconds = _PARSE_SECONDS if tries.dags else _AIRFLOW_SECONDS
    command = [sys.executable, "-m", __name__, json.dumps(asdict(tries)), home]
    try:
        answer = subprocess.run(  # noqa: S603 - our own module
            command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return [_no_answer(f"Airflow did not answer within {seconds} seconds")]
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return [_no_answer(f"Airflow cannot be asked: {last}")]
    return [Finding(**found) for found in json.loads(answer.stdout)]


def _no_answer(why: str) -> Finding:
    return Finding("airflow", "broken", why, "Run: airflow config list (its output may show why)")


def main(asked: str, home: str) -> Iterator[Finding]:
    tries = Tries(**json.loads(asked))
    # What is not defined must be mended only where there is an Airflow to define it in.
    missing: Status = "broken" if home else "warning"
    if home:
        yield _database(home)
    yield from _kafka(tries, missing)
    yield from _spark(tries, missing)
    if tries.dags:
        from ...compat.airflow import dags_of_files

        files = dags_of_files()
        yield from compared(files)
        yield from services(files, missing)
    if tries.checkpoint:
        yield checkpoint(tries.checkpoint)


def _database(home: str) -> Finding:
    """Of a database that it cannot ask, Airflow says only that it has no such connection."""
    from airflow.utils.session import create_session
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            problem = "" if inspect(session.get_bind()).has_table("connection") else "has no tables yet"
    except (SQLAlchemyError, OSError) as error:
        problem = f"cannot be reached ({type(error).__name__})"
    if problem:
        return Finding("airflow", "broken", f"the database of {home} {problem}", "Run: airflow db migrate")
    return Finding("airflow", "ok", f"its home is {home}")


def _kafka(tries: Tries, missing: Status) -> Iterator[Finding]:
    """Findings on the connection: its settings, whether Kafka answers, and what its principal may do."""
    from ...hooks.ordered_kafka import OrderedKafkaHook

    conn_id, extra = tries.kafka_conn_id, '{"bootstrap.servers": "127.0.0.1:9092"}'
    name, connection = f"connection {conn_id}", connection_named(conn_id)
    if connection is None:
        remedy = f"Run: airflow connections add {conn_id} --conn-type kafka --conn-extra '{extra}'"
        yield Finding(name, missing, "not defined", remedy)
        return
    try:
        with server_context():
            config = OrderedKafkaHook(conn_id).config  # with the tokens of managed clusters, as loads have it
        discover(config, Named(()), _ANSWER_SECONDS)
    except SettingError as error:
        yield Finding(name, "broken", str(error), f"Correct the connection's extra, such as {extra}")
    except OrderedKafkaError as error:
        yield Finding(name, "broken", str(error), "Start the broker, or correct address and security")
    else:
        yield Finding(name, "ok", f"{config.servers} answers")
        yield from permissions(config, tries)


def _spark(tries: Tries, missing: Status) -> Iterator[Finding]:
    """Findings on the connection, and on the spark-submit that it, or a load, names."""
    from ...hooks.submission import BINARY, master_of

    conn_id, connection = tries.spark_conn_id, connection_named(tries.spark_conn_id)
    if connection is None:
        remedy = f"Run: airflow connections add {conn_id} --conn-type spark --conn-host 'local[2]'"
        elsewhere = find_spec("pyspark") is None  # and where another operator starts it, there is no connection to it
        yield Finding(f"connection {conn_id}", "warning" if elsewhere else missing, "not defined", remedy)
        return
    yield Finding(f"connection {conn_id}", "ok", f"master {master_of(connection)}")
    binary = tries.spark_binary or connection.extra_dejson.get("spark-binary") or BINARY
    own = Path(sys.executable).parent / binary
    if on_path := shutil.which(binary):
        yield Finding(binary, "ok", on_path)
    elif own.exists():
        yield Finding(binary, "ok", f"{own} (not on PATH, but loads find it in their Python's folder)")
    else:
        remedy = "Run: pip install 'airflow-provider-orderedkafka[spark]', or put Spark's bin directory on PATH"
        yield Finding(binary, "broken", "not on PATH", remedy)
    yield from spark_behind(binary)


def compared(files: Iterable[File]) -> Iterator[Finding]:
    """A finding for each load that is defined twice, for files that do not parse, or that all is well."""
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    wrong: dict[str, str] = {}
    broken, good = [], 0
    for file, dags in files:
        good += dags is not None
        broken += [file] if dags is None else []
        for dag_id, dag in (dags or {}).items():
            for ledger in _ledgers_of(dag, wrong):
                homes[ledger].append(f"DAG {dag_id!r} of {file}")
    yield from (Finding(f"load {load}", "broken", why, AS_SAID) for load, why in wrong.items())
    twice = {load: found for (_, load), found in homes.items() if len(found) > 1}
    remedy = "Both move the same ledger: delete one of them, or give it and its load names of their own"
    for load, several in twice.items():
        yield Finding(f"load {load}", "broken", f"is defined by {' and by '.join(several)}", remedy)
    if broken:
        found = f"{', '.join(broken)} cannot be parsed, so their loads are not known"
        yield Finding("DAG files", "warning", found, "Run: airflow dags list-import-errors")
    if not twice and not broken and not wrong:
        yield Finding("DAG files", "ok", f"{counted(len(homes), 'load')} in {counted(good, 'file')}, each defined once")


def _ledgers_of(dag: Any, wrong: dict[str, str]) -> set[tuple[str, str]]:
    """The ledgers that a DAG's runs move, by where they are kept and the load; a replay moves none.

    Of loads whose ledgers cannot be kept, `wrong` gets why.
    """
    from ...locations import location_for

    found = set()
    for load in (each.load for each in _resolving(dag) if each.mode != "replay"):
        try:
            found.add((location_for(load.name, load.ledger) or "", load.name))
        except OrderedKafkaError as error:
            wrong[load.name] = str(error)
    return found


def services(files: Sequence[File], missing: Status) -> Iterator[Finding]:
    """Findings on each load that a service runs: connection, code, secrets, checkpoint."""
    from ...services import Service

    for _, dags in files:
        for task in (each for dag in (dags or {}).values() for each in _resolving(dag)):
            if isinstance(service := task.hands_over, Service):
                name = f"{type(service).__name__} of load {task.load.name}"
                yield _connection_of(f"connection for {name}", service, missing)
                job = job_of(task.to, task.rows, str)
                yield from (_code(f"code for {name}", place) for place in service.needed(job))
                yield _secrets(f"secrets for {name}", service, task.load, job)
                if task.checkpoint and "{{" not in task.checkpoint:
                    yield replace(checkpoint(task.checkpoint), name=f"checkpoint for {name}")


def _resolving(dag: Any) -> "list[ResolveOffsetRangeOperator]":
    from ...operators.resolve import ResolveOffsetRangeOperator

    return [each for each in dag.tasks if isinstance(each, ResolveOffsetRangeOperator)]


def _connection_of(title: str, service: "Service", missing: Status) -> Finding:
    if connection_named(service.conn_id) is not None:
        return Finding(title, "ok", f"{service.conn_id} is defined")
    if without := service.without_connection:
        return Finding(title, "ok", f"{service.conn_id} is not defined: {without}")
    kind = _TYPES.get(service.extra, service.extra)
    remedy = f"Run: airflow connections add {service.conn_id} --conn-type {kind} ..."
    return Finding(title, missing, f"{service.conn_id} is not defined", remedy)


def _code(title: str, place: str) -> Finding:
    from ...locations import exists

    seen = exists(place)
    if seen is False:
        return Finding(title, "broken", f"{place} is not there", _THERE)
    return Finding(title, "ok", f"{place} {'is there' if seen else 'cannot be seen from here'}")


def _secrets(title: str, service: "Service", load: OrderedLoad, job: Job) -> Finding:
    """Whether the service can be given the load's Kafka settings."""
    try:
        with server_context():
            service.packed_settings(load, job)
    except OrderedKafkaError as error:
        return Finding(title, "broken", str(error), AS_SAID)
    return Finding(title, "ok", "no secret is in a request")


def connection_named(conn_id: str) -> Any:
    """Search like Airflow: secrets backends, the environment, the database."""
    from airflow.models.connection import Connection
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None


def checkpoint(location: str) -> Finding:
    """Write, read and delete a document, as Airflow's tasks reach the location."""
    from ...locations import path_of
    from ...storage import join, local_path

    name = f"orderedkafka-doctor-{uuid.uuid4().hex}"
    try:
        if folder := local_path(location):
            folder.mkdir(parents=True, exist_ok=True)
        path = path_of(join(location, name))
        try:
            path.write_text(name)
            same = path.read_text() == name
        except BaseException:
            with suppress(Exception):
                path.unlink()
            raise
        path.unlink()
    except Exception as error:  # noqa: BLE001 - each object store has errors of its own, and all mean this
        found = f"{location}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return Finding("checkpoint", "broken", found, _REACHABLE)
    if not same:
        return Finding("checkpoint", "broken", f"{location} does not give back what was written", _REACHABLE)
    return Finding("checkpoint", "ok", f"write, read and delete at {location}, from here")


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Airflow prints is no part of the answer
    json.dump([asdict(finding) for finding in main(*sys.argv[1:])], answer)
    answer.close()
