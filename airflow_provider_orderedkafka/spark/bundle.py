"""The part of this package that runs on a cluster, as one zip for `spark-submit --py-files`.

    python -m airflow_provider_orderedkafka.spark.bundle bundle.zip

Driver and executors need nothing else of ours: neither Airflow nor an installed package. What has compiled parts
(confluent-kafka, pyarrow, numpy) has to be in their Python.
"""

import argparse
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
PARTS = (
    "__init__.py",
    "errors.py",
    "load.py",
    "outputs.py",
    "core",
    "decoding",
    "kafka",
    "storage",
    "loads",
    "spark",
    "compat/__init__.py",
    "compat/spark.py",
)
EPOCH = (1980, 1, 1, 0, 0, 0)


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


def _sources() -> Iterator[Path]:
    for part in PARTS:
        path = PACKAGE / part
        yield from [path] if path.is_file() else path.rglob("*.py")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE.name}.spark.bundle")
    parser.add_argument("target", type=Path, metavar="BUNDLE.zip")
    print(build_bundle(parser.parse_args().target))
