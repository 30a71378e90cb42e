"""What is shipped to a cluster."""

import subprocess
import sys
import zipfile
from pathlib import Path

from airflow_provider_orderedkafka.spark.bundle import build_bundle

PACKAGE = "airflow_provider_orderedkafka"


def test_the_bundle_has_the_part_that_runs_on_a_cluster_and_nothing_else(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build_bundle(tmp_path / "bundle.zip")).namelist()
    parts = {name.removeprefix(f"{PACKAGE}/").split("/", 1)[0] for name in names}
    folders = {"compat", "core", "decoding", "kafka", "loads", "spark", "storage"}
    assert parts == {"__init__.py", "errors.py", "load.py", "outputs.py"} | folders
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
