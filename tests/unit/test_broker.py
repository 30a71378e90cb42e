"""The broker for trying, as far as none is needed: which Java, which jars, which settings, which sample."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.errors import UnreachableError
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.broker import sample
from airflow_provider_orderedkafka.tools.broker.java import (
    FetchError,
    Java,
    JavaError,
    cache_directory,
    find_java,
    kafka_jars,
)
from airflow_provider_orderedkafka.tools.broker.local_kafka import (
    LocalKafka,
    free_port,
    new_cluster_id,
    properties_text,
)

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
    with pytest.raises(JavaError, match=naming(f"{version} ... {tmp_path} ... apt-get")):
        find_java()


def test_no_java_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="JAVA_HOME"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=f"'{tmp_path}'"):
        find_java()


def test_a_java_that_is_none_is_named_with_what_it_said(tmp_path, monkeypatch):
    told = "No Java runtime present."
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f"echo '{told}' >&2; exit 1"))
    with pytest.raises(JavaError, match=told):
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
        "import sys; from pathlib import Path; from airflow_provider_orderedkafka.tools.broker import java;"
        "print(java.kafka_jars(java.Java(Path(sys.argv[1]), '17', 17)))"
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
    with pytest.raises(FetchError, match="proxy"):
        kafka_jars(find_java(), said.append)
    assert [line.partition(" into ")[0] for line in said] == ["Fetching Apache Kafka 4.1.1"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kafka_2.13-4.1.1.lock"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(FetchError, match="ORDEREDKAFKA_CACHE"):
        kafka_jars(Java(Path("java"), "17", 17))


def test_a_sample_for_a_broker_that_does_not_answer_says_so(monkeypatch):
    monkeypatch.setattr(sample, "_DEADLINE_SECONDS", 0.5)
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError, match=nowhere):
        sample.make_topics(nowhere)
    with pytest.raises(UnreachableError, match=nowhere):
        sample.newest(nowhere)
    with pytest.raises(UnreachableError, match=f"3 of 3 .*{nowhere}"):
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
    assert f"argument --events: {wrong!r}" in capsys.readouterr().err


def test_settings_are_written_as_java_reads_them():
    text = properties_text({"log.dirs": Path("/Größe\\😀"), "b": False, "a": 9})
    assert text == "a=9\nb=false\nlog.dirs=/Gr\\u00f6\\u00dfe\\\\\\ud83d\\ude00\n"


def test_a_new_cluster_has_an_id_that_no_tool_takes_for_an_option(monkeypatch):
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: "-RdxrQKDQ_WRAZOfBT-kKA")
    assert new_cluster_id() == "ARdxrQKDQ_WRAZOfBT-kKA"


def test_a_broker_that_was_never_started_does_not_run_and_has_no_port(tmp_path):
    kafka = LocalKafka(tmp_path)
    assert (kafka.running, kafka.pid, kafka.port, kafka.state) == (False, None, None, "stopped")


@pytest.mark.parametrize("port", ["-1", "70000", "many"])
def test_a_port_that_cannot_be_is_refused(port, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["broker", "start", f"--port={port}"])
    assert left.value.code == 2
    assert "--port" in capsys.readouterr().err
