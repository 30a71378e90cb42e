"""The rooms of the house: imports point one way, between rooms and between modules, and no room is crowded."""

from graphlib import CycleError, TopologicalSorter

import pytest
from support.sources import AIRFLOW_SIDE, ROOT, imports_of, label, module_name, room_of, sources

# From the ground up: a room may import those below it.
GROUND = (
    *("errors", "core.order", "core.notation", "core", "load", "storage", "outputs"),
    *("kafka", "kafka.provenance", "kafka.clients", "kafka.lookup", "kafka.read", "kafka.write"),
    *("kafka.replay", "decoding", "job", "reader", "loads", "audit"),
)
SPARK = (
    *("compat", "compat.spark", "spark.state", "spark.connector", "spark.session", "spark.ordering", "spark.lanes"),
    *("spark.rows", "spark.tables", "spark.table_sink", "spark.application", "spark", "spark.app"),
    "spark.maintenance",
    "spark.bundle",
)
AT_AIRFLOW = ("compat", "compat.airflow", "compat.spark_submit")
TOOLS = ("tools", "tools.doctor", "tools.commands", "tools.cli")
AIRFLOW = (
    *(
        "provider_info",
        "locations",
        "context",
        "links",
        "plugins",
        "reporting",
        "hooks",
        "parsing",
        "forms",
        "triggers",
    ),
    *("assets", "sensors", "services", "launch", "operators", "dag", "__init__"),
)

# Two houses on one ground: neither imports the other.
HOUSES = ((*GROUND, *SPARK), (*GROUND, *AT_AIRFLOW, *(f"{AIRFLOW_SIDE}.{room}" for room in AIRFLOW), *TOOLS))

MOST_MODULES = 16
MOST_LINES = 500
LEAST_LINES = 80
APART = {
    "assets",  # users import it
    *("spark.connector.source", "spark.connector.stream_reader", "spark.connector.stream_writer"),  # not in each Spark
}
"""Small modules with one importer that stay apart."""


def allowed(room: str) -> set[str]:
    return {other for house in HOUSES if room in house for other in house[: house.index(room) + 1]}


@pytest.mark.parametrize("path", sources(), ids=label)
def test_a_module_imports_only_from_rooms_below_its_own(path):
    wrong = [found for found in imports_of(path) if found.room and found.room not in allowed(room_of(path))]
    assert not wrong


def test_modules_import_each_other_in_no_circle():
    graph = {module_name(path): {found.name for found in imports_of(path)} - {module_name(path)} for path in sources()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_no_room_is_crowded():
    rooms: dict[str, list[str]] = {}
    for path in sources():
        if path.name != "__init__.py":
            rooms.setdefault(str(path.parent), []).append(path.name)
    assert {room: len(names) for room, names in rooms.items() if len(names) > MOST_MODULES} == {}


def test_no_module_is_a_fragment_of_its_only_importer():
    importers: dict[str, set[str]] = {}
    for path in sources():
        for found in imports_of(path):
            importers.setdefault(found.name, set()).add(module_name(path))
    small = {module_name(path) for path in sources() if len(path.read_text().splitlines()) < LEAST_LINES}
    alone = {name for name in small if len(importers.get(name, set()) - {name}) == 1}
    folders = {module_name(path) for path in sources() if path.name == "__init__.py"}
    assert {name.partition(".")[2] for name in alone - folders} <= APART


@pytest.mark.parametrize(
    "folder",
    ["airflow_provider_orderedkafka", "benchmarks", "broker", "dags", "demo", "scripts", "spark_apps", "tests"],
)
def test_no_module_is_longer_than_a_reader_can_keep_in_mind(folder):
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > MOST_LINES} == {}


def test_every_room_is_known():
    assert {room_of(path) for path in sources()} <= {room for house in HOUSES for room in house}
