"""What is installed with the package, and what its lock promises."""

import re
import runpy
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


def split(requirement: str) -> tuple[str, str]:
    """The name and the bounds, without what is asked for in brackets."""
    return re.match(r"([\w.-]+)(?:\[.*?\])?(.*)", requirement).groups()


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


def test_pyspark_and_pyspark_client_have_the_same_bounds_and_are_locked_to_one_version():
    bounds = {name: bound for name, bound in map(split, PROJECT["dependencies"]) if name.startswith("pyspark")}
    assert bounds["pyspark"] == bounds["pyspark-client"]
    (spark,) = pins(LOCK, "pyspark")
    assert pins(LOCK, "pyspark-client") == [spark]


def test_the_lock_names_versions_and_no_place():
    assert "://" not in LOCK
    assert not re.search(r"^\s*-", LOCK, re.MULTILINE), "options, editable or hashed requirements"
    assert " @ " not in LOCK


def test_the_lock_has_every_direct_dependency():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    extras = PROJECT["optional-dependencies"].values()
    of_groups = [each for group in groups.values() for each in group if isinstance(each, str)]
    direct = [*PROJECT["dependencies"], *of_groups, *(name for extra in extras for name in extra)]
    names = {split(requirement)[0] for requirement in direct}
    assert {name for name in names if not pins(LOCK, name)} == set()


def test_the_wheel_has_every_module_and_says_that_it_is_typed(wheel):
    package = ROOT / "airflow_provider_orderedkafka"
    modules = {str(path.relative_to(ROOT)) for path in package.rglob("*.py")}
    assert modules
    assert {*modules, "airflow_provider_orderedkafka/py.typed"} <= set(wheel.namelist())


def test_the_wheel_has_the_files_of_the_page_and_none_that_loads_from_elsewhere(wheel):
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "airflow_provider_orderedkafka" / "page").iterdir()}
    assert "airflow_provider_orderedkafka/page/index.html" in files
    assert files <= set(wheel.namelist())
    elsewhere = re.compile(r"https?://(?!www\.w3\.org/2000/svg\b)")
    assert [name for name in files if elsewhere.search(wheel.read(name).decode())] == []


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


def test_the_provider_names_the_package_that_is_installed_and_its_page():
    from airflow_provider_orderedkafka.provider_info import get_provider_info

    told = get_provider_info()
    assert told["package-name"] == PROJECT["name"]
    assert {each["external-doc-url"] for each in told["integrations"]} == {PROJECT["urls"]["Homepage"]}


VERSIONS = runpy.run_path(str(ROOT / "scripts" / "versions.py"))


def test_the_readme_has_only_rows_of_environments_in_their_order_and_each_passed():
    rows = VERSIONS["rows_of"]((ROOT / "README.md").read_text())
    assert list(rows) == [each.name for each in VERSIONS["ENVIRONMENTS"] if each.name in rows]
    assert not [row for row in rows.values() if "FAILED" in row]


def test_the_tests_of_each_environment_are_there():
    for each in VERSIONS["ENVIRONMENTS"]:
        tests = [test.partition("::")[0] for test in each.tests if test.startswith("tests/")]
        assert tests
        assert [test for test in tests if not (ROOT / test).exists()] == []


def test_a_row_is_written_in_the_place_of_the_one_before_and_others_stay():
    made, written = VERSIONS["Result"], VERSIONS["written"]
    older, newer = VERSIONS["ENVIRONMENTS"][0].name, VERSIONS["ENVIRONMENTS"][1].name
    page = "before\n<!-- versions -->\n<!-- end of versions -->\nafter"
    page = written(page, [made(newer, "Python", "2 passed", passed=True)])
    page = written(page, [made(older, "Python", "1 passed", passed=True)])
    assert page.splitlines()[1:-1] == [
        "<!-- versions -->",
        *VERSIONS["HEAD"],
        f"| {older} | Python | 1 passed |",
        f"| {newer} | Python | 2 passed |",
        "<!-- end of versions -->",
    ]
