"""Check what the DAG files say: which loads they define, and what the services need that run these."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.compat.airflow import server_context
from airflow_provider_orderedkafka.core.notation.spelling import counted
from airflow_provider_orderedkafka.errors import OrderedKafkaError

from .installed import Finding, Status

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
    from airflow_provider_orderedkafka.services import Service

File = tuple[str, Mapping[str, Any] | None]
_REACHABLE = "Name a location that Airflow's workers, Spark's driver and its executors reach, and let them write there"
_THERE = "Write it with `orderedkafka bundle code/`, or copy it, to where the service reads it"
_TYPES = {"google": "google_cloud_platform"}
"""The types of connections that are not called as the extras are."""
_AS_SAID = "Do what it says, in the DAG or in the Kafka connection"


def compared(files: Iterable[File]) -> Iterator[Finding]:
    """A finding for each load that is defined twice, for files that do not parse, or that all is well."""
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    broken, good = [], 0
    for file, dags in files:
        good += dags is not None
        broken += [file] if dags is None else []
        for dag_id, dag in (dags or {}).items():
            for ledger in _ledgers_of(dag):
                homes[ledger].append(f"DAG {dag_id!r} of {file}")
    twice = {load: found for (_, load), found in homes.items() if len(found) > 1}
    yield from (_twice(load, found) for load, found in twice.items())
    if broken:
        found = f"{', '.join(broken)} cannot be parsed, so which loads are in there is not known"
        yield Finding("DAG files", "warning", found, "Run: airflow dags list-import-errors")
    if not twice and not broken:
        yield Finding("DAG files", "ok", f"{counted(len(homes), 'load')} in {counted(good, 'file')}, each defined once")


def _ledgers_of(dag: Any) -> set[tuple[str, str]]:
    """The ledgers that a DAG's runs move, by where they are kept and the load; a replay moves none."""
    from airflow_provider_orderedkafka.locations import location_for
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator

    tasks = [each for each in dag.tasks if isinstance(each, ResolveOffsetRangeOperator) and each.mode != "replay"]
    return {(location_for(each.load.name, each.load.ledger) or "", each.load.name) for each in tasks}


def _twice(load: str, found: list[str]) -> Finding:
    remedy = "Delete one of them, or give it and its load names of their own: two of them move one ledger by turns"
    return Finding(f"load {load}", "broken", f"is defined by {' and by '.join(found)}", remedy)


def services(files: Sequence[File], missing: Status) -> Iterator[Finding]:
    """Findings on each load that a service runs: provider, connection, code, secrets, checkpoint."""
    from airflow_provider_orderedkafka.services import Service

    for _, dags in files:
        for task in (each for dag in (dags or {}).values() for each in _resolving(dag)):
            if isinstance(service := task.hands_over, Service):
                name = f"{type(service).__name__} of load {task.load.name}"
                yield _provider(f"provider for {name}", service)
                yield _way_there(f"connection for {name}", service, missing)
                yield from (_code(f"code for {name}", place) for place in _places(service, task))
                yield _secrets(f"secrets for {name}", service, task)
                if task.checkpoint and "{{" not in task.checkpoint:
                    yield replace(checkpoint(task.checkpoint), name=f"checkpoint for {name}")


def _resolving(dag: Any) -> "list[ResolveOffsetRangeOperator]":
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator

    return [each for each in dag.tasks if isinstance(each, ResolveOffsetRangeOperator)]


def _provider(title: str, service: "Service") -> Finding:
    """Whether it is new enough; where it is missing, the DAG file cannot be parsed, and says so."""
    from packaging.requirements import Requirement

    stated = [Requirement(each) for each in metadata.requires("airflow-provider-orderedkafka") or ()]
    needed = next(each for each in stated if each.marker and each.marker.evaluate({"extra": service.extra}))
    version = metadata.version(needed.name)
    if not needed.specifier.contains(version, prereleases=True):
        remedy = f"Run: pip install 'airflow-provider-orderedkafka[{service.extra}]'"
        return Finding(title, "broken", f"{needed.name} {version}, and {needed.specifier} is needed", remedy)
    return Finding(title, "ok", f"{needed.name} {version}")


def _way_there(title: str, service: "Service", missing: Status) -> Finding:
    if connection_named(service.conn_id) is not None:
        return Finding(title, "ok", f"{service.conn_id} is defined")
    if service.does_without_connection:
        return Finding(title, "ok", f"{service.conn_id} is not defined: AWS looks for credentials by itself")
    kind = _TYPES.get(service.extra, service.extra)
    remedy = f"Run: airflow connections add {service.conn_id} --conn-type {kind} ..."
    return Finding(title, missing, f"{service.conn_id} is not defined", remedy)


def _places(service: "Service", task: "ResolveOffsetRangeOperator") -> list[str]:
    from airflow_provider_orderedkafka.hooks.launching import packaged_for

    own = "" if task.rows.application is None else task.rows.application.file
    return [*service.places, service.application(own, packaged_for(task.to))]


def _code(title: str, place: str) -> Finding:
    from airflow_provider_orderedkafka.locations import is_there

    seen = is_there(place)
    if seen is False:
        return Finding(title, "broken", f"{place} is not there", _THERE)
    return Finding(title, "ok", f"{place} {'is there' if seen else 'cannot be seen from here'}")


def _secrets(title: str, service: "Service", task: "ResolveOffsetRangeOperator") -> Finding:
    """Whether the service can be given the load's Kafka settings."""
    from airflow_provider_orderedkafka.job import job_of

    try:
        with server_context():
            service.told(task.load, job_of(task.to, task.rows, str))
    except OrderedKafkaError as error:
        return Finding(title, "broken", str(error), _AS_SAID)
    return Finding(title, "ok", "none is in a request")


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
    from airflow_provider_orderedkafka.locations import path_of
    from airflow_provider_orderedkafka.storage import join, local_path

    name = f"orderedkafka-doctor-{uuid.uuid4().hex}"
    try:
        if folder := local_path(location):
            folder.mkdir(parents=True, exist_ok=True)
        path = path_of(join(location, name))
        path.write_text(name)
        same = path.read_text() == name
        path.unlink()
    except Exception as error:  # noqa: BLE001 - each object store has errors of its own, and all mean this
        found = f"{location}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return Finding("checkpoint", "broken", found, _REACHABLE)
    if not same:
        return Finding("checkpoint", "broken", f"{location} does not give back what was written", _REACHABLE)
    return Finding("checkpoint", "ok", f"write, read and delete at {location}, from here")
