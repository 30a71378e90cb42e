"""After a disaster: the steps of docs/trouble.md, done one by one with a real load, and what is there afterwards."""

import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.bench import steps_of
from support.records import Record

from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.commands.at_airflow import store_of

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "docs" / "trouble.md"
STEPS = re.findall(r"^\d\. \*\*([^*]+)\.\*\* (.+(?:\n   .+)*)", PAGE.read_text("utf-8"), re.MULTILINE)
START = 1_700_000_000_000
COUNT, LANDED = 20, 10
"""How many records there are, and how many of them are written when the transform first raises."""

TRANSFORM = """
from pathlib import Path

def careful(records):
    return records.mapInArrow(checked, records.schema)

def checked(batches):
    for batch in batches:
        for value in batch.column("value").to_pylist():
            if value.startswith(b"/") and not Path(value.decode()).exists():
                raise ValueError("the lookup is missing")
        yield batch
"""
SOURCE = """
from airflow.sdk import DAG
from airflow_provider_orderedkafka import *

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest", batch_offsets=5)
rows = Rows(transform="after_a_disaster:careful")
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load, to=KafkaOutput({output!r}), rows=rows, checkpoint={checkpoint!r})
"""


def advised(of: str, load: str) -> list[str]:
    """The command that the page has for what was lost, without the program's name."""
    (text,) = [text for name, text in STEPS if name == of]
    (command,) = re.findall(r"`orderedkafka (ledger \w+ <load>[^`]*)`", text)
    return [*shlex.split(command.replace("<load>", load)), "--yes"]


@pytest.fixture
def story(bench, dag_file, airflow_home, tmp_path):
    """The file of the DAG of a load that has written half of a range, its parsed DAG, and its checkpoints' folder."""
    folder, lookup = airflow_home / "dags", tmp_path / "lookup"
    module = folder / "after_a_disaster.py"
    module.write_text(TRANSFORM)
    values = [str(lookup).encode() if n == LANDED else b"%d" % n for n in range(COUNT)]
    bench._records.produce(bench.topic, [Record(value, START + n, 0, b"k") for n, value in enumerate(values)])
    checkpoints = tmp_path / "checkpoints"
    source = SOURCE.format(load=bench.load, topic=bench.topic, output=bench.output, checkpoint=str(checkpoints))
    file = f"{bench.load.replace('-', '_')}.py"
    dag = dag_file(source, file)
    assert dag.test().state == "failed"
    lookup.touch()
    yield dag, folder / file, checkpoints
    module.unlink()


def written(bench):
    return Counter(record.value for record in bench._records.read(bench.output))


def test_a_lost_checkpoint_loses_no_row_and_what_is_there_twice_has_the_id_of_the_range_that_was_given_up(
    bench, story, states, ledger_of, capsys
):
    dag, file, checkpoints = story
    assert written(bench).total() == LANDED
    shutil.rmtree(checkpoints)
    assert steps_of(bench, states(dag.test()))["load"] == "failed"
    assert f"orderedkafka ledger abandon {bench.load}" in capsys.readouterr().out
    assert written(bench).total() == LANDED
    given_up = ledger_of(bench.load).open.range_id
    assert cli.main(advised("The checkpoint", bench.load)) == 0
    assert cli.main(["plan", str(file)]) == 0
    assert f"{COUNT} offsets" in capsys.readouterr().out
    assert dag.test().state == "success"
    rows = written(bench)
    assert len(rows) == COUNT
    assert sorted(rows.values()) == [1] * (COUNT - LANDED) + [2] * LANDED
    headers = [str(record.headers) for record in bench._records.read(bench.output)]
    assert sum(given_up in each for each in headers) == LANDED
    capsys.readouterr()
    assert cli.main(["ledger", "history", bench.load]) == 0
    assert given_up in capsys.readouterr().out
    assert cli.main(["audit", str(file)]) == 0


def test_a_lost_database_gives_up_the_open_range_and_the_next_run_loads_it_whole(bench, story, ledger_of):
    dag, _, _ = story
    store_of(bench.load)._remove("ledger")
    assert cli.main(advised("Airflow's database", bench.load)) == 0
    assert ledger_of(bench.load).open is None
    assert dag.test().state == "success"
    rows = written(bench)
    assert len(rows) == COUNT
    assert sorted(rows.values()) == [1] * (COUNT - LANDED) + [2] * LANDED
