"""An environment like this one, without some packages: neither imports nor metadata know of them."""

import shutil
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

WITHOUT_SPARK = ("pyspark", "pyspark-client", "py4j", "pandas", "apache-airflow-providers-apache-spark")
WITHOUT_AIRFLOW = ("airflow", "airflow-provider-orderedkafka", "apache-airflow-core", "apache-airflow-task-sdk")
"""Neither is this package there: a cluster gets it as a bundle."""
_OF_AIRFLOW = ("", "-core", "-task-sdk", "-providers-apache-kafka")
READER_ALONE = (*WITHOUT_SPARK, "airflow", *(f"apache-airflow{each}" for each in _OF_AIRFLOW))

SHARED = {"..", "airflow"}
"""Folders that packages share: those of the providers, and what lies outside."""


def environment_without(folder: Path, *packages: str) -> Path:
    """Make it of links to what is installed here; its Python. A package is named, or its folder."""
    venv.create(folder, symlinks=True)
    here, there = Path(sysconfig.get_path("purelib")), next(folder.glob("lib/python*/site-packages"))
    left_out = {name for each in packages for name in (each, *_names(each))}
    for entry in here.iterdir():
        if entry.name not in left_out:
            (there / entry.name).symlink_to(entry)
    scripts = Path(sysconfig.get_path("scripts"))
    for name in ("airflow", "orderedkafka"):
        body = (scripts / name).read_text("utf-8").partition("\n")[2]
        shutil.copy(scripts / name, folder / "bin" / name)
        (folder / "bin" / name).write_text(f"#!{folder / 'bin' / 'python'}\n{body}", "utf-8")
    return folder / "bin" / "python"


def _names(package: str) -> set[str]:
    """What a package has at the top of the folder of packages."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return set()
    return {file.parts[0] for file in files} - SHARED
