"""What is shipped to a cluster."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.messages import says

from airflow_provider_orderedkafka.spark.bundle import build_bundle, requirements
from airflow_provider_orderedkafka.tools import cli

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_orderedkafka"


def test_the_bundle_has_the_part_that_runs_on_a_cluster_and_nothing_else(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build_bundle(tmp_path / "bundle.zip")).namelist()
    parts = {name.removeprefix(f"{PACKAGE}/").split("/", 1)[0] for name in names}
    folders = {"compat", "core", "decoding", "kafka", "loads", "spark"}
    assert parts == {"__init__.py", "errors.py", "job.py", "load.py", "outputs.py", "storage.py"} | folders
    assert f"{PACKAGE}/compat/airflow.py" not in names
    assert all(name.endswith(".py") for name in names)


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (build_bundle(tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second


def test_the_application_is_imported_from_the_bundle_alone_without_airflow(tmp_path: Path) -> None:
    bundle = build_bundle(tmp_path / "bundle.zip")
    look = (
        "import sys; sys.modules['airflow'] = None; "
        f"import {PACKAGE}.spark.app as app; print(app.__file__.startswith({str(bundle)!r}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", look],
        env={"PYTHONPATH": str(bundle)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "True"


def test_a_driver_that_has_nothing_is_told_all_of_it_at_once(tmp_path: Path) -> None:
    bundle = build_bundle(tmp_path / "bundle.zip")
    program = [sys.executable, "-S", ROOT / "spark_apps" / "ordered_replay.py", "--help"]
    where = {"env": {"PYTHONPATH": str(bundle)}, "cwd": tmp_path}
    done = subprocess.run(program, **where, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    [said] = done.stderr.splitlines()
    needed = "confluent-kafka and pyarrow and numpy and attrs and authlib and cachetools and certifi and fastavro and"
    assert said.startswith(f"ordered_replay.py: this Python ({sys.executable}) has no {needed} protobuf and httpx2: ")
    assert "--requirements requirements.txt" in said


def names(text: str) -> list[str]:
    return [re.match(r"[\w-]+", line)[0] for line in text.splitlines() if not line.startswith("#")]


def test_the_requirements_name_all_that_is_imported_on_a_cluster_and_neither_spark_nor_airflow() -> None:
    found = names(requirements("4.2"))
    assert {"confluent-kafka", "numpy", "pandas", "pyarrow", "fastavro", "protobuf", "authlib", "httpx"} <= set(found)
    assert [name for name in found if "airflow" in name or "pyspark" in name] == []
    assert sorted(set(found)) == sorted(found)


def test_what_an_older_spark_does_not_know_is_bounded_for_it_alone() -> None:
    assert {"pyarrow<19", "numpy<2", "pandas<2.3"} <= set(requirements("3.5.8").splitlines())
    assert "pyarrow<19" not in requirements("4.0")


def test_the_command_writes_the_zip_and_the_requirements_and_says_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, file = tmp_path / "bundle.zip", tmp_path / "requirements.txt"
    assert cli.main(["bundle", str(bundle), "--requirements", str(file), "--spark", "3.5"]) == 0
    assert zipfile.is_zipfile(bundle)
    assert file.read_text() == requirements("3.5")
    assert capsys.readouterr().out == f"{bundle}\n{file}\n\n{requirements('3.5')}"


def test_a_program_is_told_the_files_and_what_is_required(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, file = tmp_path / "bundle.zip", tmp_path / "requirements.txt"
    assert cli.main(["bundle", str(bundle), "--requirements", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["files"] == [str(bundle), str(file)]
    assert printed["requirements"] == [line for line in file.read_text().splitlines() if not line.startswith("#")]


def test_a_spark_that_is_no_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle", str(tmp_path / "bundle.zip"), "--spark", "newest"]) == 2
    assert says(capsys.readouterr().err, "--spark ... 'newest'")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle", str(tmp_path / "nowhere" / "bundle.zip")]) == 2
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert len(said.splitlines()) == 1
