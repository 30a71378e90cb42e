"""A load on a topic of its own in a real Airflow, with a quick application that keeps a diary."""

import json
import uuid
from pathlib import Path

from support.records import Record

APPLICATION = Path(__file__).parents[1] / "airflow" / "apps" / "quick.py"
HELD = Path(__file__).parents[1] / "fault" / "apps" / "held.py"
EARLY = 1_700_000_000_000

SOURCE = """
from airflow.sdk import DAG, Asset
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_orderedkafka import *
{first}

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest", {settings})
quick = Application({application!r}, arguments=["--diary", {diary!r}, "--orders", {orders!r}])
with DAG({load!r}, schedule={schedule}, catchup=False, max_active_runs=1, params={params}):
    {group}(load, rows=Rows(application=quick, {rows}), {arguments})
"""


class Bench:
    """One load on a topic of its own, with the diary of its application."""

    def __init__(self, dag_file, topics, records, folder):
        self.load = f"load-{uuid.uuid4().hex[:8]}"
        self.topic, self.output = topics
        self._dag_file = dag_file
        self._records = records
        self._diary, self._orders = folder / "diary", folder / "orders"
        self._written = 0

    def dag(self, settings="", arguments="", schedule="None", *, group="ordered_load", rows="", first="", params="{}"):
        """The DAG, by that function, with these settings of the load, arguments of the function and of its rows."""
        source = SOURCE.format(
            load=self.load,
            topic=self.topic,
            application=str(APPLICATION),
            diary=str(self._diary),
            orders=str(self._orders),
            settings=settings,
            arguments=arguments,
            schedule=schedule,
            group=group,
            rows=rows,
            first=first,
            params=params,
        )
        return self._dag_file(source, f"{self.load.replace('-', '_')}.py")

    def write(self, count, begin=None):
        """Records a millisecond apart, from a moment on or after the ones before."""
        begin = EARLY + self._written if begin is None else begin
        stamps = range(begin, begin + count)
        self._records.produce(self.topic, [Record(b"x", stamp) for stamp in stamps])
        self._written += count

    def order(self, *lines):
        self._orders.write_text("\n".join(lines))

    @property
    def diary(self):
        return [json.loads(line) for line in self._diary.read_text().splitlines()] if self._diary.exists() else []


def steps_of(bench, states):
    return {task.removeprefix(f"{bench.load}."): state for task, state in states.items()}
