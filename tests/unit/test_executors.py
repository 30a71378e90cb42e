"""What the executors of a local master lack is found out before the first batch, without a job."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Protobuf
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.session.starting import check_executors

ROOT = Path(__file__).parents[2]


def session(interpreter: Path | str, master: str = "local[2]") -> Any:
    context = SimpleNamespace(master=master, pythonExec=str(interpreter), _python_includes=[])
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An interpreter without any installed package."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


def test_workers_that_start_with_the_interpreter_of_this_process_lack_nothing() -> None:
    check_executors(session(sys.executable, "local[*,1]"))


def test_an_interpreter_without_the_packages_is_named_with_the_ways_to_ship_them(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(SettingError, match=rf"{bare}.* confluent-kafka .*--requirements.* venv-pack"):
        check_executors(session(bare))


def test_what_a_load_needs_to_decode_is_looked_for_too(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    decode = Decode(value=Avro(registry="registry"), key=Protobuf(registry="registry"))
    check_executors(session(sys.executable), decode.needed)
    with pytest.raises(SettingError, match=r"attrs .*authlib .*fastavro .*protobuf .*httpx2"):
        check_executors(session(bare), decode.needed)


def test_an_interpreter_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"nowhere.*PYSPARK_PYTHON"):
        check_executors(session(tmp_path / "nowhere"))
