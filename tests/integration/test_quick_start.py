"""Spark starts from an archive of its classes, made and used as docs/tuning.md says."""

import os
import subprocess
from pathlib import Path

from support import quick_java


def test_the_page_advises_no_first_compiler_without_room_for_what_it_compiles() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text("utf-8")
    assert page.count(quick_java.FIRST_COMPILER) == page.count("TieredStopAtLevel") == 1


def test_java_takes_spark_s_classes_from_the_archive(tmp_path: Path) -> None:
    archive, options = quick_java.made(), quick_java.environment()[quick_java.OPTIONS]
    assert str(archive) in options
    seen = tmp_path / "classes"
    subprocess.run(
        [
            quick_java.SPARK_SUBMIT,
            *("--conf", f"spark.driver.extraJavaOptions={options} -Xlog:class+load:file={seen}"),
            "--version",
        ],
        env={**os.environ, quick_java.OPTIONS: ""},
        check=True,
        timeout=120,
    )
    loaded = {line.split("] ")[-1].strip() for line in seen.read_text().splitlines()}
    assert any(line.startswith("org.apache.spark.deploy.SparkSubmit source: shared ") for line in loaded)
