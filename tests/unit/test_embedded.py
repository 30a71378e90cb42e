"""The embedded broker's parts that need no broker: which Java, which ports, which settings, which jars."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_orderedkafka.errors import DocumentError, SettingError, UnreachableError
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.embedded import jars, sample, settings
from airflow_provider_orderedkafka.tools.embedded.broker import Installation
from airflow_provider_orderedkafka.tools.embedded.classes import archive, quick
from airflow_provider_orderedkafka.tools.embedded.errors import FetchError, JavaError
from airflow_provider_orderedkafka.tools.embedded.jars import cache_directory
from airflow_provider_orderedkafka.tools.embedded.java import Java, find_java
from airflow_provider_orderedkafka.tools.embedded.layout import Layout
from airflow_provider_orderedkafka.tools.embedded.process import ServerLog, ServerProcess
from airflow_provider_orderedkafka.tools.embedded.settings import Ports

# In place of Java: does what Ivy would, slowly, and notes each time it was run.
IVY = """#!/bin/sh
echo run >> "{runs}"
sleep 0.5
mkdir jars && touch jars/kafka_2.13-4.1.1.jar
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def java_home(directory: Path, script: str) -> str:
    return str(program(directory / "bin" / "java", f"#!/bin/sh\n{script}\n").parent.parent)


def test_the_java_of_java_home_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2"))
    assert find_java() == Java(tmp_path / "bin" / "java", "21.0.2", 21)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_an_older_java_is_refused_with_what_was_found_and_how_to_get_a_newer_one(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f"echo 'java version \"{version}\"' >&2"))
    with pytest.raises(JavaError, match=f"Java {version} was found at {tmp_path}.* 17 or newer.*apt-get"):
        find_java()


def test_no_java_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match=r"JAVA_HOME is not set and PATH has no `java`.*apt-get.*brew"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=f"JAVA_HOME is '{tmp_path}', but .* does not exist"):
        find_java()


def test_a_java_that_is_none_is_named_with_what_it_said(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, "echo 'No Java runtime present.' >&2; exit 1"))
    with pytest.raises(JavaError, match="No Java runtime present"):
        find_java()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ORDEREDKAFKA_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/orderedkafka"),
        ({"HOME": "/home/me"}, "/home/me/.cache/orderedkafka"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, environment, expected):
    for name in ("ORDEREDKAFKA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(expected)


def test_two_processes_that_need_the_jars_at_once_fetch_them_once(tmp_path):
    runs = tmp_path / "runs"
    java = program(tmp_path / "java", IVY.format(runs=runs))
    fetch = (
        "import sys; from pathlib import Path; from airflow_provider_orderedkafka.tools.embedded import jars, java;"
        "print(jars.kafka_jars(java.Java(Path(sys.argv[1]), '17', 17)))"
    )
    environment = {**os.environ, "ORDEREDKAFKA_CACHE": str(tmp_path / "cache")}
    both = [
        subprocess.Popen([sys.executable, "-c", fetch, java], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=60)[0].strip() for process in both}
    assert answers == {str(tmp_path / "cache" / "kafka_2.13-4.1.1")}
    assert runs.read_text() == "run\n"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [
        "kafka_2.13-4.1.1",
        "kafka_2.13-4.1.1.lock",
    ]


def test_a_fetch_without_a_network_leaves_nothing_behind_and_says_what_helps(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "cache"))
    # The real Ivy, sent to a proxy that is not there.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9")
    said = []
    with pytest.raises(FetchError, match=r"(?s)Connection refused.*proxy.*copy the directory"):
        jars.kafka_jars(find_java(), said.append)
    assert [line.partition(" into ")[0] for line in said] == ["Fetching Apache Kafka 4.1.1"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kafka_2.13-4.1.1.lock"]


def test_where_classes_cannot_be_written_down_the_broker_starts_without_them(tmp_path):
    installation = Installation(Java(tmp_path / "java", "17.0.15", 17), tmp_path / "kafka")
    (tmp_path / "kafka-java-17.0.15.lock").mkdir()
    assert quick(installation, pytest.fail) == installation


def test_a_java_that_wrote_no_classes_down_is_not_asked_again(tmp_path):
    installation = Installation(Java(tmp_path / "java", "17.0.15", 17), tmp_path / "kafka")
    archive(installation).touch()
    assert quick(installation, pytest.fail) == installation


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(FetchError, match=r"cannot be written.*set ORDEREDKAFKA_CACHE"):
        jars.kafka_jars(Java(Path("java"), "17", 17))


def test_wanted_ports_are_kept_and_the_others_are_free_and_different():
    chosen = settings.choose_ports(3, [9092, 0, 9094])
    assert (chosen[0].client, chosen[2].client) == (9092, 9094)
    assert len({port for ports in chosen for port in (ports.client, ports.controller)}) == 6


@pytest.mark.parametrize("wanted", [[9092], [9092, 9092, 9093], [9092, 70_000, 9093], [-1, 0, 0]])
def test_ports_that_cannot_be_are_refused(wanted):
    with pytest.raises(SettingError, match="port"):
        settings.choose_ports(3, wanted)


def test_the_users_properties_win_over_the_defaults_but_not_over_the_clusters_own():
    text = settings.server_properties(
        1, [Ports(1, 2)], Path("/data"), {"num.io.threads": 9, "log.cleaner.enable": False}
    )
    assert "num.io.threads=9\n" in text
    assert "log.cleaner.enable=false\n" in text
    with pytest.raises(SettingError, match=r"properties sets listeners, node\.id"):
        settings.checked({"node.id": 7, "listeners": "x", "num.io.threads": 9})


def test_a_path_that_is_not_ascii_is_written_as_java_reads_it():
    text = settings.server_properties(1, [Ports(1, 2)], Path("/Größe\\😀"), {})
    assert r"log.dirs=/Gr\u00f6\u00dfe\u005c\ud83d\ude00" in text


def test_a_layout_is_read_as_it_was_written(tmp_path):
    layout = Layout.of(tmp_path, 3, None)
    layout.save(tmp_path)
    assert Layout.load(tmp_path) == layout == Layout.of(tmp_path, 3, None)
    moved = Layout.of(tmp_path, 3, [9001, 9002, 9003])
    assert moved.cluster_id == layout.cluster_id
    assert [ports.client for ports in moved.ports] == [9001, 9002, 9003]


def test_a_new_cluster_has_an_id_that_no_tool_takes_for_an_option(tmp_path, monkeypatch):
    ids = iter(["-RdxrQKDQ_WRAZOfBT-kKA", "RdxrQKDQ_WRAZOfBT-kKAA"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: next(ids))
    assert Layout.of(tmp_path, 1, None).cluster_id == "RdxrQKDQ_WRAZOfBT-kKAA"


def test_a_cluster_stays_with_its_version(tmp_path):
    Layout.of(tmp_path, 1, None, "3.9.1").save(tmp_path)
    assert Layout.of(tmp_path, 1, None).kafka == Layout.of(tmp_path, 1, [9001], "3.9.1").kafka == "3.9.1"
    with pytest.raises(SettingError, match=r"holds a cluster of Kafka 3\.9\.1, 4\.4\.0 was asked for: take another"):
        Layout.of(tmp_path, 1, None, "4.4.0")


def test_a_layout_that_names_no_version_is_of_the_only_one_that_there_was(tmp_path):
    document = {"version": 1, "cluster_id": "x", "brokers": [{"port": 9001, "controller_port": 9002}]}
    (tmp_path / "cluster.json").write_text(json.dumps(document))
    assert Layout.load(tmp_path) == Layout("x", (Ports(9001, 9002),), "4.1.1")


@pytest.mark.parametrize("version", ["3.8.1", "4", "4.0", "4.1.1-rc1", "latest", ""])
def test_a_version_that_cannot_be_run_is_refused(tmp_path, version):
    with pytest.raises(SettingError, match=r"from 3\.9\.0 on, such as"):
        Layout.of(tmp_path, 1, None, version)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"version": 9, "cluster_id": "x", "brokers": []}'])
def test_a_layout_that_cannot_be_read_is_an_error_with_the_way_out(tmp_path, text):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(DocumentError, match=r"cluster\.json cannot be read .*: take another directory"):
        Layout.load(tmp_path)


def test_the_log_shows_first_errors_and_last_lines_of_the_last_start_alone(tmp_path):
    path = tmp_path / "server.log"
    log = ServerLog(path)
    path.write_text("ERROR of yesterday\n")
    log.begin()
    with path.open("a") as file:
        file.write("start\nERROR the reason\n" + "".join(f"line {n}\n" for n in range(100)))
    assert log.excerpt().splitlines() == ["ERROR the reason", *(f"line {n}" for n in range(94, 100))]
    assert log.mentions("the reason")
    assert not log.mentions("yesterday")


def test_a_program_is_running_from_the_moment_it_was_started(tmp_path):
    """While a process becomes another program it has no command line for a moment: it is not gone."""
    for _ in range(40):
        process = ServerProcess(tmp_path / "pid", tmp_path / "log", "a mark")
        process.start([sys.executable, "-S", "-c", "import time; time.sleep(60)", "a mark"], detached=False)
        seen = [process.pid for _ in range(20)]
        process.signal(signal.SIGKILL)
        assert process.ended_within(20)
        assert seen == [int((tmp_path / "pid").read_text())] * 20


def test_a_later_process_with_the_same_number_is_another_program(tmp_path):
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert ServerProcess(tmp_path / "pid", tmp_path / "log", "a mark").pid is None


def test_a_sample_for_a_broker_that_does_not_answer_says_so(monkeypatch):
    monkeypatch.setattr(sample, "_DEADLINE_SECONDS", 0.5)
    nowhere = f"127.0.0.1:{settings.free_port()}"
    with pytest.raises(UnreachableError, match=f"{nowhere} did not create the topics within 0.5 s: .*transport"):
        sample.make_topics(nowhere)
    with pytest.raises(UnreachableError, match=f"{nowhere} did not find the latest event within 0.5 s: no answer"):
        sample.newest(nowhere)
    with pytest.raises(UnreachableError, match=f"3 of 3 events were not written at {nowhere}: .*"):
        sample.write_events(nowhere, 3)


def test_more_events_are_of_this_moment_so_that_no_load_has_passed_them():
    now = round(time.time() * 1_000)
    first, more = ([event[3] for event in sample._events(1_000, after)] for after in (-1, now - 300_000))
    assert now - 101_000 < min(first) < now - 99_000
    assert now - 2_500 < min(more) <= max(more) < now + 500
    assert more == sorted(more)


@pytest.mark.parametrize("wrong", ["0", "-5", "many", "1.5"])
def test_a_sample_has_at_least_one_event(wrong, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["broker", "sample", "--events", wrong])
    assert left.value.code == 2
    assert f"argument --events: {wrong!r} must be a number of events, 1 or more" in capsys.readouterr().err
