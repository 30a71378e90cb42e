"""What is installed with the package, and what its lock promises."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()


def pins(text: str, name: str) -> list[str]:
    return re.findall(rf"^{re.escape(name)}==(\S+)", text, re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built by the backend itself: nothing is fetched."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = directory.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_pyspark_and_pyspark_client_are_pinned_to_one_version():
    required = "\n".join(PROJECT["dependencies"])
    (spark,) = pins(required, "pyspark")
    assert pins(required, "pyspark-client") == [spark]
    assert pins(LOCK, "pyspark") == pins(LOCK, "pyspark-client") == [spark]


def test_the_lock_names_versions_and_no_place():
    assert "://" not in LOCK
    assert not re.search(r"^\s*-", LOCK, re.MULTILINE), "options, editable or hashed requirements"
    assert " @ " not in LOCK


def test_the_lock_has_every_direct_dependency():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    extras = PROJECT["optional-dependencies"].values()
    direct = [*PROJECT["dependencies"], *groups["dev"], *(name for extra in extras for name in extra)]
    names = {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in direct}
    assert {name for name in names if not pins(LOCK, name)} == set()


def test_the_wheel_has_every_module_and_says_that_it_is_typed(wheel):
    package = ROOT / "airflow_provider_orderedkafka"
    modules = {str(path.relative_to(ROOT)) for path in package.rglob("*.py")}
    assert modules
    assert {*modules, "airflow_provider_orderedkafka/py.typed"} <= set(wheel.namelist())


def test_the_wheel_has_the_spark_applications(wheel):
    applications = {f"airflow_provider_orderedkafka/spark_apps/{path.name}" for path in ROOT.glob("spark_apps/*.py")}
    assert applications
    assert applications <= set(wheel.namelist())


def test_the_wheel_has_the_example_dags_for_the_demo_and_for_copying(wheel):
    examples = {f"airflow_provider_orderedkafka/example_dags/{path.name}" for path in ROOT.glob("dags/*.py")}
    assert "airflow_provider_orderedkafka/example_dags/orders_ordered.py" in examples
    assert examples <= set(wheel.namelist())


def test_the_wheel_has_nothing_of_the_tests_and_no_compiled_files(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_provider_orderedkafka"}
    assert not [name for name in wheel.namelist() if name.endswith(".pyc")]


def test_airflow_and_the_shell_find_their_entry_points(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    text = wheel.read(name).decode()
    for line in (
        "[apache_airflow_provider]",
        "provider_info = airflow_provider_orderedkafka.provider_info:get_provider_info",
        "[airflow.plugins]",
        "orderedkafka = airflow_provider_orderedkafka.plugins:OrderedKafkaPlugin",
        "[console_scripts]",
        "orderedkafka = airflow_provider_orderedkafka.tools.cli:main",
    ):
        assert line in text.splitlines()


def test_the_provider_names_the_package_that_is_installed():
    from airflow_provider_orderedkafka.provider_info import get_provider_info

    assert get_provider_info()["package-name"] == PROJECT["name"]
