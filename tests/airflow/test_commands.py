"""`orderedkafka ledger` and `orderedkafka plan`, as a person runs them, on a real database and a real broker."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.messages import says
from support.records import at

from airflow_provider_orderedkafka.compat.airflow import dags_of_files, has_asset_state
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.errors import TopicChangedError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.topics import check_topics
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.commands.at_airflow import store_of
from airflow_provider_orderedkafka.tools.commands.plan import defined_in

BY_COUNTRY = Path(__file__).parents[2] / "dags" / "orders_by_country.py"
SCRIPT = str(Path(sysconfig.get_path("scripts")) / "orderedkafka")


@pytest.fixture
def ledger(bench, capsys):
    """The ledger command on the bench's load; gives its exit code and what it says."""

    def run(action, *arguments):
        capsys.readouterr()
        code = cli.main(["ledger", action, bench.load, *arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out + said.err

    return run


def shell(*arguments, **environment):
    """The command as a process of its own."""
    env = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=120, check=False, env=env)
    assert "Traceback" not in done.stderr
    return done


def connection_in_the_database(kafka):
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    with create_session() as session:
        extra = json.dumps({"bootstrap.servers": kafka.bootstrap_servers})
        session.add(Connection(conn_id="kept_in_the_database", conn_type="kafka", extra=extra))


def test_a_ledger_is_shown_moved_and_given_up_from_a_shell(bench, ledger, ledger_of):
    bench.write(6)
    bench.dag().test()
    code, said = ledger("show")
    assert code == 0
    for line in ("revision      1", "rows written  6", "open          nothing", f"  {bench.topic}[0]@6", "committed"):
        assert line in said
    assert json.loads(ledger("show", "--json")[1])["revision"] == 1

    assert ledger("abandon", "--reason", "r", "--yes")[1].endswith("there is nothing to abandon\n")
    rewind = ("rewind", "--to", "earliest", "--reason", "a bug")
    code, said = ledger(*rewind)
    assert (code, ledger_of(bench.load).revision) == (2, 1)
    assert "6 offsets" in said
    assert "--yes" in said
    assert ledger(*rewind, "--yes")[0] == 0
    assert ledger_of(bench.load).revision == 2

    bench.order("fail 75")
    bench.dag().test()
    assert ledger(*rewind, "--yes")[0] == 65  # a range is open
    assert f"\n    {bench.topic}[0]  0 to 6: 6 offsets\n" in ledger("show")[1]
    code, said = ledger("abandon", "--reason", "given up", "--yes")
    assert (code, said.splitlines()[-1]) == (0, "done: the ledger is at revision 2")
    found = ledger_of(bench.load)
    assert (found.open, found.outcomes[-1].kind, found.outcomes[-1].reason) == (None, "abandoned", "given up")

    code, said = ledger("history")
    assert code == 0
    assert [line.split()[2] for line in said.splitlines()] == ["abandoned", "rewound", "committed"]
    assert said.splitlines()[0].endswith(": given up")
    history = json.loads(ledger("history", "--json")[1])
    shown = json.loads(ledger("show", "--json")[1])
    assert [str(Moment(each.at)) for each in found.outcomes[::-1]] == [each["at"] for each in history]
    assert [each["at"] for each in shown["outcomes"]] == [each["at"] for each in history[::-1]]
    assert shown["first_looked_at"] == str(Moment(found.first_looked_at))
    assert [(each["kind"], each["reason"]) for each in history[:2]] == [("abandoned", "given up"), ("rewound", "a bug")]
    _, said = ledger(*rewind, "--yes", "--json")
    assert json.loads(said.splitlines()[0]) == {"load": bench.load, "revision": 3}


@pytest.mark.skipif(not has_asset_state(), reason="needs the state stores of Airflow 3.3")
def test_all_loads_are_shown_with_their_lag_their_last_success_and_why_one_failed(bench, capsys):
    bench.write(6)
    bench.dag().test()
    bench.write(4)
    bench.order("fail 65")
    bench.dag().test()
    capsys.readouterr()
    assert cli.main(["loads", "--json"]) == 0
    (found,) = [each for each in json.loads(capsys.readouterr().out) if each["load"] == bench.load]
    assert (found["state"], found["behind_offsets"]) == ("failed", 4)
    assert found["behind_ms"] > 0
    assert found["last_success_at"].endswith("Z")
    bench.write(3)
    capsys.readouterr()
    assert cli.main(["loads", "--json"]) == 0
    (before,) = [each for each in json.loads(capsys.readouterr().out) if each["load"] == bench.load]
    assert cli.main(["loads", "--live", "--json"]) == 0
    (live,) = [each for each in json.loads(capsys.readouterr().out) if each["load"] == bench.load]
    assert (before["behind_offsets"], live["behind_offsets"]) == (4, 7)
    assert live["seen_at"] > before["seen_at"]
    assert cli.main(["ledger", "show", f"{bench.load}x"]) == 65
    assert says(capsys.readouterr().err, f"{bench.load + 'x'!r} ... mean {bench.load!r}?")
    assert " 65" in found["error"]
    assert cli.main(["loads", "--failed"]) == 0
    assert f"{bench.load}  failed" in capsys.readouterr().out


ALARMED = """
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator


def alarmed(context):
    Path({alarm!r}).touch()
"""


@pytest.mark.skipif(not has_asset_state(), reason="needs the state stores of Airflow 3.3")
def test_a_load_that_another_operator_runs_is_shown_as_failed_and_its_own_alarm_goes_off(bench, tmp_path, capsys):
    bench.write(6)
    fails = "lambda launch: BashOperator(bash_command='exit 3', **launch.task)"
    tasks = "{'load': {'on_failure_callback': alarmed}}"
    more = f"spark={fails}, checkpoint='file://{tmp_path}/checkpoints', tasks={tasks}, wait='never'"
    bench.dag(arguments=more, first=ALARMED.format(alarm=str(tmp_path / "alarm"))).test()
    capsys.readouterr()
    assert cli.main(["loads", "--json"]) == 0
    (found,) = [each for each in json.loads(capsys.readouterr().out) if each["load"] == bench.load]
    assert (found["state"], "3" in found["error"]) == ("failed", True), found
    assert (tmp_path / "alarm").exists()


def test_a_lost_ledger_is_taken_up_again_from_its_mirror(bench, ledger, ledger_of):
    bench.write(6)
    dag = bench.dag()
    dag.test()
    store_of(bench.load)._remove("ledger")
    code, said = ledger("show")
    assert code == 65
    assert f"orderedkafka ledger restore {bench.load}" in said
    assert "failed" in {ti.state for ti in dag.test().get_task_instances()}  # never a silent fresh start
    code, said = ledger("restore", "--reason", "the database was lost", "--yes")
    assert code == 0, said
    assert "revision 1, " in said
    found = ledger_of(bench.load)
    assert (found.revision, found.rows_emitted, list(found.place.offsets.values())) == (2, 6, [6])
    bench.write(2)
    dag.test()
    assert [entry["offsets"] for entry in bench.diary] == [6, 2]


def test_nothing_is_moved_while_the_run_that_owns_the_range_is_active(bench, ledger, ledger_of):
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import select

    bench.write(1)
    bench.order("fail 75")
    run = bench.dag().test()
    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.run_id == run.run_id, DagRun.dag_id == bench.load)).one()
        found.state = DagRunState.RUNNING
    for action in (("abandon",), ("rewind", "--to", "current"), ("restore",)):
        code, said = ledger(*action, "--reason", "r", "--yes")
        assert code == 65
        assert f"{bench.load}/{run.run_id}" in said
    assert ledger_of(bench.load).open is not None


def followed(advice, load):
    """Run the commands that a message advises; their exit codes."""
    commands = re.findall(r"`orderedkafka (ledger [^`]*)`", advice.replace("<load>", load))
    return [cli.main([*shlex.split(command), "--yes"]) for command in commands]


def test_a_command_knows_how_a_file_s_dag_loads_though_no_variable_has_that_dag(bench, tmp_path, capsys):
    bench.write(3)
    dag = bench.dag(arguments=f"checkpoint={str(tmp_path)!r}")
    assert cli.main(["audit", dag.fileloc]) == 2
    assert repr(str(tmp_path)) in capsys.readouterr().err
    hourly = {"schedule": "CronDataIntervalTimetable('@hourly', timezone='UTC')", "group": "ordered_intervals"}
    replayed = {"arguments": "start='earliest', end='latest'", "group": "ordered_replay"}
    for how, said in (("data intervals", hourly), ("replays", replayed)):
        file = bench.dag(**said).fileloc
        assert cli.main(["plan", file]) == 2
        assert says(capsys.readouterr().err, f"load {bench.load!r} ... {how}: ... --start")
        assert cli.main(["plan", file, "--start", "earliest"]) == 0
        assert "3 offsets" in capsys.readouterr().out


def test_a_topic_that_was_created_again_is_loaded_whole_after_the_rewind_that_the_error_advises(
    bench, topics, capsys, ledger_of
):
    topics.grow(bench.topic, 2)
    bench.write(6)
    dag = bench.dag()
    dag.test()
    topics.recreate(bench.topic)
    bench.write(9)
    capsys.readouterr()
    assert dag.test().state == "failed"
    (advice,) = set(re.findall(r"topic .* was deleted and created again .*`", capsys.readouterr().out))
    assert followed(advice, bench.load) == [0]
    assert f"  {bench.topic}[0]@0: new" in capsys.readouterr().out
    assert dag.test().state == "success"
    assert [entry["offsets"] for entry in bench.diary] == [6, 9]
    assert list(ledger_of(bench.load).place.offsets.values()) == [9]


def test_a_rewind_puts_all_partitions_of_a_topic_also_where_some_were_chosen(bench, topics, ledger, ledger_of):
    topics.grow(bench.topic, 3)
    bench.write(6)

    def dag_of(*partitions):
        load = f"replace(load, topics={{load.topics[0]: {[*partitions]}}})"
        group = f"(lambda load, **more: ordered_load({load}, **more))"
        return bench.dag(group=group, first="from dataclasses import replace")

    dag_of(0).test()
    assert [each.partition for each in ledger_of(bench.load).place.offsets] == [0]
    code, said = ledger("rewind", "--to", "latest", "--reason", "r", "--yes")
    assert (code, f"  {bench.topic}[2]@" in said) == (0, True)
    found = ledger_of(bench.load)
    assert len(found.place.offsets) == 3
    assert dag_of(0, 2).test().state == "success"
    assert ledger_of(bench.load).place == found.place


def test_a_rewind_goes_by_what_its_load_reads_of_a_transaction_that_is_open(bench, records, ledger, ledger_of):
    group = "(lambda load, **more: ordered_load(replace(load, isolation='read_uncommitted'), **more))"
    bench.write(2)
    with records.transaction() as transaction:
        transaction.produce(bench.topic, at(1, 2, 3, 4))
        assert bench.dag(group=group, first="from dataclasses import replace").test().state == "success"
        for to, leads in (("latest", 6), (json.dumps({bench.topic: [5]}), 5)):
            code, said = ledger("rewind", "--to", to, "--reason", "r", "--yes")
            assert (code, said.splitlines()[-1].partition(":")[0]) == (0, "done")
            assert list(ledger_of(bench.load).place.offsets.values()) == [leads]


def test_a_rewind_to_a_moment_goes_by_the_timestamps_of_the_future_that_its_load_takes(
    bench, records, ledger, ledger_of
):
    now = int(datetime.now(UTC).timestamp() * 1_000)
    group = "(lambda load, **more: ordered_load(replace(load, future_tolerance='2h'), **more))"
    records.produce(bench.topic, at(now - 7_200_000, now + 1_800_000, now - 7_200_000))
    assert bench.dag(group=group, first="from dataclasses import replace").test().state == "success"
    code, _ = ledger("rewind", "--to", "-1h", "--reason", "r", "--yes")
    assert (code, list(ledger_of(bench.load).place.offsets.values())) == (0, [1])


def test_a_range_whose_topic_was_created_again_is_given_up_as_the_error_advises(bench, topics, kafka, ledger_of):
    bench.write(6)
    bench.order("fail 65")
    dag = bench.dag()
    assert dag.test().state == "failed"
    planned = ledger_of(bench.load).topics
    topics.recreate(bench.topic)
    bench.write(9)
    with pytest.raises(TopicChangedError) as found:
        check_topics(KafkaConfig({"bootstrap.servers": kafka.bootstrap_servers}), [bench.topic], planned, 15)
    assert followed(str(found.value), bench.load) == [0, 0]
    assert dag.test().state == "success"
    assert [entry["offsets"] for entry in bench.diary] == [6, 9]


def test_a_connection_of_the_database_is_found_as_airflow_s_own_commands_find_it(bench, kafka, ledger, monkeypatch):
    bench.write(3)
    bench.dag().test()
    connection_in_the_database(kafka)
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT")
    arguments = ("rewind", "--to", "earliest", "--reason", "r", "--yes")
    code, said = ledger(*arguments)
    assert code == 75
    assert "'kafka_default'" in said
    assert ledger(*arguments, "--kafka-conn-id", "kept_in_the_database")[0] == 0


def test_an_unknown_load_a_missing_reason_and_an_unread_place_are_named(bench, ledger, capsys):
    bench.write(1)
    bench.dag().test()
    assert cli.main(["ledger", "show", "unheard-of"]) == 65
    assert "'unheard-of'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        ledger("abandon", "--yes")
    assert ended.value.code == 2
    assert "--reason" in capsys.readouterr().err
    code, said = ledger("abandon", "--yes", "--reason", " ")
    assert code == 2
    assert "reason" in said
    code, said = ledger("rewind", "--yes", "--reason", "r", "--to", "yesterday")
    assert code == 2
    assert "'yesterday'" in said


def test_a_plan_says_what_the_next_run_would_load_and_writes_nothing(bench, ledger_of, capsys):
    bench.write(6)
    dag = bench.dag(settings='min_offsets=10, grace="0s"')
    assert cli.main(["plan", dag.fileloc]) == 0
    said = capsys.readouterr().out
    assert "6 of 10 offsets" in said
    assert f"{bench.topic}[0]@0 to 6: 6 offsets" in said
    assert says(said, f"batches   1, ... 6 offsets, ... 0.1 KiB\n  1 ... {bench.topic}[0]@6")
    bench.write(4)
    assert cli.main(["plan", dag.fileloc, bench.load, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["starts"], plan["range"]["end"]["offsets"]) == (True, {bench.topic: [10]})
    for time in (plan["range"]["planned_at"], plan["range"]["end"]["floor"]["time"], plan["partitions"][0]["last"]):
        assert datetime.fromisoformat(time) <= datetime.now(UTC)
    assert plan["range"]["future_tolerance_ms"] > 0
    assert plan["range"]["start"]["floor"]["time"] is None
    batched = bench.dag(settings='batch_offsets=4, grace="0s"')
    assert cli.main(["plan", batched.fileloc]) == 0
    said = capsys.readouterr().out
    assert "batches   3, of 4 offsets" in said
    assert says(said, f"\n  1 ... {bench.topic}[0]@4\n  2 ... {bench.topic}[0]@8")
    dag = bench.dag(settings='min_offsets=10, grace="0s"')
    bench.order("fail 75")
    dag.test()
    opened = ledger_of(bench.load)
    assert cli.main(["plan", dag.fileloc]) == 0
    assert opened.open.range_id in capsys.readouterr().out
    assert ledger_of(bench.load) == opened
    file = Path(dag.fileloc)
    file.write_text(file.read_text().replace(f"with DAG('{bench.load}", f"with DAG('renamed-{bench.load}"))
    assert cli.main(["plan", dag.fileloc]) == 65
    assert f"'renamed-{bench.load}'" in capsys.readouterr().out


def test_an_audit_of_a_dag_finds_the_load_s_ranges_where_its_tasks_leave_their_reports(bench, ledger_of, capsys):
    bench.write(6)
    dag = bench.dag()
    dag.test()
    [outcome] = ledger_of(bench.load).outcomes
    capsys.readouterr()
    assert cli.main(["audit", dag.fileloc, bench.load, "--json"]) == 65
    [found] = json.loads(capsys.readouterr().out)["ranges"]
    assert (found["range"], found["verdict"]) == (outcome.range_id, "unknown")
    assert len(found["reasons"]) == 1


def test_a_replay_is_planned_from_a_shell_before_it_is_run(bench, capsys):
    bench.write(9)
    path = bench.dag().fileloc
    start = json.dumps({bench.topic: [4]})
    assert cli.main(["plan", path, "--start", start, "--end", "latest"]) == 0
    assert f"{bench.topic}[0]@4 to 9: 5 offsets" in capsys.readouterr().out
    assert cli.main(["plan", path, "--end", "latest"]) == 2
    assert "--start" in capsys.readouterr().err
    assert cli.main(["plan", path, "--start", "gestern"]) == 2
    assert says(capsys.readouterr().err, "'--start' ... 'earliest' ... 'gestern'")


def test_a_plan_for_a_file_that_does_not_run_says_why(tmp_path, capsys, airflow_home):
    broken, empty = tmp_path / "broken.py", tmp_path / "empty.py"
    broken.write_text("import unheard_of\n")
    empty.write_text("")
    assert cli.main(["plan", str(broken)]) == 2
    assert says(capsys.readouterr().err, "ModuleNotFoundError: ... 'unheard_of'")
    assert cli.main(["plan", str(empty)]) == 2
    assert str(empty) in capsys.readouterr().err
    assert cli.main(["plan", str(tmp_path / "nowhere.py")]) == 2
    assert "nowhere.py" in capsys.readouterr().err


@pytest.fixture
def shared(airflow_home):
    """A load of which the DAGs folder has the settings, and a DAG file that imports them."""
    texts = {
        "shared_settings": "from airflow_provider_orderedkafka import OrderedLoad\n"
        "load = OrderedLoad('shared', topics=['shared'])\n",
        "importing": "from airflow.sdk import DAG\nfrom shared_settings import load\n",
    }
    files = [airflow_home / "dags" / f"{name}.py" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    yield
    for file in files:
        file.unlink()


@pytest.mark.usefixtures("shared")
def test_a_dag_file_may_import_what_lies_beside_it_and_in_the_dags_folder(tmp_path):
    (tmp_path / "beside_it.py").write_text("from shared_settings import load\n")
    (file := tmp_path / "dag.py").write_text("from beside_it import load\n")
    before = [*sys.path]
    assert defined_in(file, None)[0].name == "shared"
    assert dict(dags_of_files())["dags-folder:importing.py"] is not None
    assert sys.path == before


def test_each_load_that_a_loop_of_a_file_makes_is_found_by_its_name(capsys, airflow_home):
    names = ["orders_at", "orders_be", "orders_ch"]
    for name in names:
        load, tasks = defined_in(BY_COUNTRY, name)
        assert (load.name, {task.dag_id for task in tasks}) == (name, {name})
    assert cli.main(["plan", str(BY_COUNTRY)]) == 2
    said = capsys.readouterr().err
    assert [name for name in names if name in said] == names


def test_from_a_shell_only_the_document_goes_to_the_output(bench):
    bench.write(2)
    bench.dag().test()
    done = shell("ledger", "show", bench.load, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows_emitted"] == 2


def test_without_a_migrated_database_the_way_out_is_named(tmp_path):
    database = f"sqlite:///{tmp_path}/airflow.db"
    done = shell("ledger", "show", "orders", AIRFLOW_HOME=str(tmp_path), AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database)
    assert done.returncode == 2
    assert "`airflow db migrate`" in done.stderr
    assert str(tmp_path) in done.stderr


def test_without_airflow_the_way_out_is_named():
    code = "import sys; sys.modules['airflow'] = None; from airflow_provider_orderedkafka.tools.cli import main; "
    dag_file = str(Path(__file__).parents[2] / "dags" / "orders_ordered.py")
    for command in (["ledger", "show", "orders"], ["plan", dag_file]):
        done = subprocess.run(
            [sys.executable, "-c", f"{code}sys.exit(main({command!r}))"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert "Airflow" in done.stderr
