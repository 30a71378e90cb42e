"""Java really takes the archive that was made, and one that does not fit is no trouble."""

import os
import subprocess
from pathlib import Path

import pytest
from support import quick_java

from airflow_provider_orderedkafka import quick_start


def spark_submit(options: str) -> str:
    """What the least that spark-submit can do prints."""
    home = quick_start.own_spark()
    assert home is not None
    done = subprocess.run(
        [home / "bin" / "spark-submit", "--version"],
        env={**os.environ, "SPARK_HOME": str(home), quick_start.OPTIONS: options},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return done.stdout


def test_java_takes_spark_s_classes_from_the_archive(tmp_path: Path) -> None:
    seen = tmp_path / "classes"
    spark_submit(f"{quick_java.environment()[quick_start.OPTIONS]} -Xlog:class+load:file={seen}")
    loaded = {line.split("] ")[-1].strip() for line in seen.read_text().splitlines()}
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in loaded


@pytest.mark.parametrize("content", [b"", b"no classes" * 1_000])
def test_java_goes_on_quietly_without_an_archive_that_it_cannot_take(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(content)
    plain = spark_submit("")
    assert spark_submit(quick_start.started_from(archive)) == plain
