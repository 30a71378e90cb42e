"""Rehearses a release: all that an upload would show too late, without one.

    python scripts/release.py [--python VERSION ...]

Builds twice and compares, checks the metadata, installs into an empty environment of each Python the wheel alone, which
reads from a broker, and wheel and source distribution with the oldest and the newest Airflow, and follows the README
with the wheel. Ends with 1 at the first thing that is not as it should be. What an upload would send is in `dist/`, and
listed.
"""

import argparse
import hashlib
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker import LocalKafka, sample

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "airflow_provider_orderedkafka"
DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = [each.rpartition(" :: ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]

SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - \S+)?$(?P<text>.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS, EXAMPLE = "localhost:9092", "dags/orders_ordered.py"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Rehearse a release.")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one; default: all")
    arguments = parser.parse_args(argv)
    say(f"version {version()}: {what_is_next((ROOT / 'CHANGELOG.md').read_text('utf-8'), version())}")
    built = build()
    uv("tool", "run", "--quiet", "twine", "check", "--strict", *map(str, built))
    for file in built:
        listed(file)
    wheel = next(file for file in built if file.suffix == ".whl")
    with tempfile.TemporaryDirectory(prefix="orderedkafka-release-") as folder:
        for python in arguments.python or PYTHONS:
            read_alone(Path(folder, python), python, wheel)
            for airflow in airflows():
                for file in built:
                    tried(Path(folder, "environment"), python, airflow, file)
        readme_followed(Path(folder), wheel)
    say("everything is as it should be; RELEASING.md says how to go on")
    return 0


def version() -> str:
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / PACKAGE / "__init__.py").read_text("utf-8"), re.MULTILINE)
    return str(found)


def what_is_next(changelog: str, current: str) -> str:
    """What the changelog asks of the version: of 0.y.z, what changes or adds takes the next y, all else the next z.

    Ends the script where the newest release in the changelog is not this version.
    """
    (first, unreleased), *released = [(each["version"], each["text"]) for each in SECTION.finditer(changelog)]
    if first == "Unreleased" and not released:
        return f"nothing is released, so the next one is {current}"
    newest = released[0][0] if released else None
    if first != "Unreleased" or newest != current:
        sys.exit(f"CHANGELOG.md has {first!r} and {newest!r} on top, and __version__ is {current!r}: see RELEASING.md")
    headings = re.findall(r"^### (\w+)$", unreleased, re.MULTILINE)
    if not headings:
        return "the changelog has nothing that is not in it"
    major, minor, patch = map(int, current.split("."))
    breaking = {"Added", "Changed", "Removed"} & set(headings)
    after = f"{major}.{minor + 1}.0" if breaking else f"{major}.{minor}.{patch + 1}"
    return f"the changelog has {', '.join(headings)} beyond it, so the next one is {after}"


def build() -> list[Path]:
    """The wheel and the source distribution, the same bytes in each of two builds."""
    hashes = []
    for _ in range(2):
        uv("build", "--quiet", "--clear", "--out-dir", str(DIST))
        files = sorted(path for path in DIST.iterdir() if path.name.endswith((".whl", ".tar.gz")))
        hashes.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
    if hashes[0] != hashes[1]:
        sys.exit(f"two builds differ: {hashes}")
    for path in files:
        say(f"{path.name}  {path.stat().st_size:,} bytes  sha256 {hashes[0][path.name]}  (twice the same)")
    return files


def listed(file: Path) -> None:
    """Print how many files are in it at the top; the whole list is beside it."""
    if file.suffix == ".whl":
        names = zipfile.ZipFile(file).namelist()
    else:
        with tarfile.open(file) as archive:
            names = [each.partition("/")[2] for each in archive.getnames()]
    (DIST / f"{file.name}.files").write_text("\n".join(sorted(names)) + "\n", "utf-8")
    tops = Counter(name.partition("/")[0] for name in names)
    shown = ", ".join(f"{top} {count}" if count > 1 else top for top, count in sorted(tops.items()))
    say(f"{file.name} has {len(names)} files, all of them in dist/{file.name}.files: {shown}")


def airflows() -> list[Any]:
    """The oldest and the newest Airflow of `make versions`: a day stands in for its constraints file."""
    rows = runpy.run_path(str(ROOT / "scripts" / "versions.py"))["ENVIRONMENTS"]
    found = [each for each in rows if each.axis == "airflow" and not each.options]
    return [found[0], found[-1]]


def tried(home: Path, python: str, airflow: Any, file: Path) -> None:
    """Install it without Spark into an empty environment, and ask what works there: the doctor, a DAG, the bundle."""
    installed(home, python, airflow.until, *without_spark(airflow), f"{file}[airflow]")
    size = megabytes(home)
    with elsewhere(
        home, AIRFLOW__ORDEREDKAFKA__LEDGER=str(home / "ledgers")
    ) as run:  # Airflow 3.1 has no store for them
        run("orderedkafka", "bundle", "bundle.zip", "--requirements", "requirements.txt")
        run("python", "-W", "ignore", str(ROOT / EXAMPLE))
        found = json.loads(run("orderedkafka", "doctor", "--json"))["findings"]
    say(f"Python {python}, {airflow.name}, {file.name}: {size} MB, {len(found)} findings of the doctor, none broken")


def megabytes(home: Path) -> int:
    """What the packages of an environment take, before Python compiles any."""
    return sum(path.stat().st_size for path in (home / "lib").rglob("*") if path.is_file()) // 1_000_000


def without_spark(airflow: Any) -> list[str]:
    return [each for each in airflow.requirements if not each.startswith("pyspark")]


def read_alone(folder: Path, python: str, wheel: Path) -> None:
    """Install it without an extra into an empty environment, and read a topic there."""
    home = folder / "environment"
    installed(home, python, "", str(wheel))
    size = megabytes(home)
    with elsewhere(home) as run, LocalKafka(folder / "broker") as kafka:
        sample.make_topics(kafka.bootstrap_servers)
        sample.write_events(kafka.bootstrap_servers)
        read = run("orderedkafka", "read", "orders", "--bootstrap-servers", kafka.bootstrap_servers)
    say(f"Python {python}, {wheel.name} alone: {size} MB, {len(read.splitlines()):,} records read")


def installed(home: Path, python: str, until: str, *what: str) -> None:
    """Make an empty environment, and install this into it, as of a day."""
    found = {**os.environ, "PYTHON": f"python{python}"}
    path = subprocess.run(["scripts/python"], cwd=ROOT, env=found, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S607
    uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", path.strip(), str(home))
    day = ["--exclude-newer", until] if until else []
    uv("pip", "install", "--quiet", "--python", str(home / "bin" / "python"), *day, *what)


@contextmanager
def elsewhere(home: Path, **variables: str) -> Iterator[Any]:
    """Runs programs of an environment in a folder of their own, in an Airflow that was never set up."""
    names = {"PYTHONPATH", "PYSPARK_PYTHON", "VIRTUAL_ENV", "SPARK_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in names and not name.startswith("AIRFLOW")}
    with tempfile.TemporaryDirectory() as folder:
        own = {"AIRFLOW_HOME": folder, "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONWARNINGS": "ignore"}
        env = kept | own | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"} | variables

        def run(*command: str, cwd: str = folder) -> str:
            done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
            return done.stdout

        yield run


def readme_followed(folder: Path, wheel: Path) -> None:
    """Run the commands of "Use it", in their order, with the wheel in place of the checkout and a broker of its own."""
    home = folder / "environment"
    newest = airflows()[-1]
    installed(home, PYTHONS[-1], newest.until, *newest.requirements, f"{wheel}[airflow,spark]")
    say(f"the wheel with Spark: {megabytes(home)} MB")
    with elsewhere(home) as run, LocalKafka(folder / "broker") as kafka:
        sample.make_topics(kafka.bootstrap_servers)
        sample.write_events(kafka.bootstrap_servers)
        for line in commands((ROOT / "README.md").read_text("utf-8")):
            run("bash", "-euc", line.replace(ADDRESS, kafka.bootstrap_servers), cwd=str(ROOT))
            say(f"README: {line}")
        shown = json.loads(run("orderedkafka", "ledger", "show", "orders", "--json"))
    say(f"the ledger is at revision {shown['revision']} with {shown['rows_emitted']:,} rows")


def commands(readme: str) -> list[str]:
    """The commands of "Use it" but for the installation."""
    section = readme.partition("\n## Use it\n")[2].partition("\n## ")[0]
    return [line for block in BLOCK.findall(section) for line in block.splitlines() if not line.startswith("pip ")]


def uv(*arguments: str) -> None:
    subprocess.run(["scripts/uv", *arguments], cwd=ROOT, check=True)  # noqa: S603, S607 - in ROOT


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
