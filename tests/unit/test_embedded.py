"""What the tests' brokers are started with, and what keeps hold of their processes."""

import os
import signal
import sys

import pytest
from support.embedded import settings
from support.embedded.broker import Installation
from support.embedded.classes import archive, quick
from support.embedded.layout import Layout
from support.embedded.process import ServerProcess

from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.tools.broker.java import Java


def test_where_classes_cannot_be_written_down_the_broker_starts_without_them(tmp_path):
    installation = Installation(Java(tmp_path / "java", "17.0.15", 17), tmp_path / "kafka")
    (tmp_path / "kafka-java-17.0.15.lock").mkdir()
    assert quick(installation, pytest.fail) == installation


def test_a_java_that_wrote_no_classes_down_is_not_asked_again(tmp_path):
    installation = Installation(Java(tmp_path / "java", "17.0.15", 17), tmp_path / "kafka")
    archive(installation).touch()
    assert quick(installation, pytest.fail) == installation


def test_wanted_ports_are_kept_and_the_others_are_free_and_different():
    chosen = settings.choose_ports(3, [9092, 0, 9094])
    assert (chosen[0].client, chosen[2].client) == (9092, 9094)
    assert len({port for ports in chosen for port in (ports.client, ports.controller)}) == 6


@pytest.mark.parametrize("wanted", [[9092], [9092, 9092, 9093], [9092, 70_000, 9093], [-1, 0, 0]])
def test_ports_that_cannot_be_are_refused(wanted):
    with pytest.raises(SettingError, match="port"):
        settings.choose_ports(3, wanted)


def test_a_layout_is_read_as_it_was_written(tmp_path):
    layout = Layout.of(tmp_path, 3, None)
    layout.save(tmp_path)
    assert Layout.load(tmp_path) == layout == Layout.of(tmp_path, 3, None)
    moved = Layout.of(tmp_path, 3, [9001, 9002, 9003])
    assert moved.cluster_id == layout.cluster_id
    assert [ports.client for ports in moved.ports] == [9001, 9002, 9003]


def test_a_cluster_stays_with_its_version(tmp_path):
    Layout.of(tmp_path, 1, None, "3.9.1").save(tmp_path)
    assert Layout.of(tmp_path, 1, None).kafka == Layout.of(tmp_path, 1, [9001], "3.9.1").kafka == "3.9.1"
    with pytest.raises(SettingError, match=r"3\.9\.1, 4\.4\.0"):
        Layout.of(tmp_path, 1, None, "4.4.0")


@pytest.mark.parametrize("version", ["3.8.1", "4", "4.0", "4.1.1-rc1", "latest", ""])
def test_a_version_that_cannot_be_run_is_refused(tmp_path, version):
    with pytest.raises(SettingError, match=r"3\.9\.0"):
        Layout.of(tmp_path, 1, None, version)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"version": 9, "cluster_id": "x", "brokers": []}'])
def test_a_layout_that_cannot_be_read_is_an_error_with_the_way_out(tmp_path, text):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(DocumentError, match=r"cluster\.json"):
        Layout.load(tmp_path)


def test_a_program_is_running_from_the_moment_it_was_started(tmp_path):
    """While a process becomes another program it has no command line for a moment: it is not gone."""
    for _ in range(40):
        process = ServerProcess(tmp_path / "pid", tmp_path / "log", "a mark")
        process.start([sys.executable, "-S", "-c", "import time; time.sleep(60)", "a mark"])
        seen = [process.pid for _ in range(20)]
        process.signal(signal.SIGKILL)
        assert process.ended_within(20)
        assert seen == [int((tmp_path / "pid").read_text())] * 20


def test_a_later_process_with_the_same_number_is_another_program(tmp_path):
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert ServerProcess(tmp_path / "pid", tmp_path / "log", "a mark").pid is None
