"""Write the part of this package that runs on a cluster, as one zip for `spark-submit --py-files`.

    orderedkafka bundle bundle.zip
    orderedkafka bundle bundle.zip --requirements requirements.txt --spark 3.5
    orderedkafka bundle code/

A folder gets what `code=` of a service names: the zip, with this release in its name, and the applications.

Driver and executors need neither Airflow nor this package installed. Packages with compiled parts have to be in their
Python: --requirements lists them for `pip install -r`.
"""

import argparse
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from ..errors import SettingError
from ..job import DISTRIBUTION, bundle_name

PACKAGE = Path(__file__).parent.parent
PARTS = (
    "__init__.py",
    "errors.py",
    "job.py",
    "load.py",
    "outputs.py",
    "core",
    "decoding",
    "kafka",
    "storage.py",
    "loads",
    "spark",
    "compat/__init__.py",
    "compat/spark.py",
)
EPOCH = (1980, 1, 1, 0, 0, 0)

NEEDS: Final = {
    "": "for every load",
    "spark": "for PySpark's own functions over Arrow, in the driver",
    "decode": "to decode Avro and Protobuf, and to ask a schema registry",
}
"""What it is needed for, by the extra that has it."""

OF_AIRFLOW_OR_SPARK: Final = re.compile(r"apache-airflow|pyspark")
BEFORE_SPARK_4: Final = ("numpy<2", "pandas<2.3", "pyarrow<19", "setuptools<81")
"""Spark 3.5 knows nothing newer."""

REQUIREMENT: Final = re.compile(r"([^;]+?)\s*(?:;\s*extra == ['\"](\w+)['\"])?")
SPARK: Final = re.compile(r"(\d+)\.\d+(\.\d+)?")


def build_bundle(target: Path) -> Path:
    """Write the zip, under a temporary name first; the same sources give the same bytes."""
    partial = target.with_name(target.name + ".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as bundle:
        for source in sorted(_sources()):
            name = zipfile.ZipInfo(f"{PACKAGE.name}/{source.relative_to(PACKAGE).as_posix()}", EPOCH)
            name.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(name, source.read_bytes())
    partial.replace(target)
    return target


def build_code(folder: Path) -> list[Path]:
    """The bundle, under this release's own name, and the packaged applications, in a folder that is made."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = [PACKAGE / "spark_apps", PACKAGE.parent / "spark_apps"]  # installed, or in a checkout
    programs = sorted(next(place for place in beside if place.is_dir()).glob("ordered_*.py"))
    return [build_bundle(folder / bundle_name()), *(Path(shutil.copy(each, folder)) for each in programs)]


def _sources() -> Iterator[Path]:
    for part in PARTS:
        path = PACKAGE / part
        yield from [path] if path.is_file() else path.rglob("*.py")


def requirements(spark: str) -> str:
    """The packages that driver and executors need besides this version of Spark and the zip, for pip.

    `SettingError` if this package is not installed here, whose metadata says so.
    """
    try:
        stated = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError as error:
        raise SettingError(
            f"the list of what a cluster needs is part of {DISTRIBUTION}, which is not installed for this Python: "
            "run `orderedkafka bundle` where Airflow runs"
        ) from error
    found = [match for each in stated if (match := REQUIREMENT.fullmatch(each)) and not OF_AIRFLOW_OR_SPARK.match(each)]
    lines = [f"# Beside Spark {spark}, in the Python of its driver and its executors."]
    for extra, why in NEEDS.items():
        lines += [f"# {why}", *sorted(match[1] for match in found if (match[2] or "") == extra)]
    old = BEFORE_SPARK_4 if spark.startswith("3.") else ()
    return "\n".join([*lines, *(["# what this Spark knows", *old] if old else []), ""])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", type=Path, metavar="BUNDLE.zip|FOLDER", help="where to write the zip")
    needed = "a file for the list of packages that the cluster's Python needs"
    parser.add_argument("--requirements", type=Path, metavar="FILE", help=needed)
    parser.add_argument("--spark", default="4.2", metavar="VERSION", help="the cluster's Spark (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the files and the required packages as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print where they are; the requirements themselves, too. `SettingError` if it cannot."""
    if not SPARK.fullmatch(arguments.spark):
        raise SettingError(f"--spark must be a version such as 3.5 or 4.2, found {arguments.spark!r}")
    try:
        alone = arguments.target.suffix == ".zip"
        files = [build_bundle(arguments.target)] if alone else build_code(arguments.target)
        text = requirements(arguments.spark) if arguments.requirements else ""
        if text:
            arguments.requirements.write_text(text, "utf-8")
            files.append(arguments.requirements)
    except OSError as error:
        raise SettingError(f"{str(error.filename)!r} cannot be written: {error.strerror}") from error
    packages = [line for line in text.splitlines() if not line.startswith("#")]
    made = {"files": [str(each) for each in files], "requirements": packages}
    print(json.dumps(made) if arguments.json else "\n".join([*made["files"], *(["", text.rstrip()] if text else [])]))
    return 0
