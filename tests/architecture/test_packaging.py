"""What is installed with the package, and what its lock promises."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from support.sources import ROOT, Import, imports_of, sources

from airflow_provider_orderedkafka.compat.airflow import AIRFLOW, TRIED
from airflow_provider_orderedkafka.outputs import PACKAGES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OWN = {*sys.stdlib_module_names, "airflow_provider_orderedkafka"}
LOCK = (ROOT / "requirements.lock").read_text()


def pins(text: str, name: str) -> list[str]:
    return re.findall(rf"^{re.escape(name)}==(\S+)", text, re.MULTILINE)


def split(requirement: str) -> tuple[str, str]:
    """The name and the bounds, without what is asked for in brackets."""
    return re.match(r"([\w.-]+)(?:\[.*?\])?(.*)", requirement).groups()


def hatchling(*arguments: str, where: Path = ROOT) -> str:
    """What the backend says: nothing is fetched."""
    command = [sys.executable, "-m", "hatchling", *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wheel")
    hatchling("build", "--target", "wheel", "--directory", str(directory))
    (path,) = directory.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_pyspark_and_pyspark_client_have_the_same_bounds_and_are_locked_to_one_version():
    bounds = {name: bound for name, bound in map(split, EXTRAS["spark"]) if name.startswith("pyspark")}
    assert bounds["pyspark"] == bounds["pyspark-client"]
    (spark,) = pins(LOCK, "pyspark")
    assert pins(LOCK, "pyspark-client") == [spark]


def test_what_spark_alone_needs_is_an_extra():
    assert {"pyspark", "pyspark-client", "pandas", f"{AIRFLOW}-providers-apache-spark"} == names(EXTRAS["spark"])
    assert names(EXTRAS["spark"]) & names(PROJECT["dependencies"]) == set()


def test_without_an_extra_there_is_what_the_reader_needs_and_airflow_is_an_extra():
    assert names(PROJECT["dependencies"]) == {"confluent-kafka", "numpy", "pyarrow"}
    assert all(each.startswith(AIRFLOW) for each in names(EXTRAS["airflow"]))


@pytest.mark.parametrize("name", TRIED)
def test_airflow_is_not_capped_and_what_was_tried_begins_at_the_floor_and_ends_at_the_lock(name):
    bounds = dict(map(split, EXTRAS["airflow"]))[name]
    oldest, newest = TRIED[name]
    assert oldest.startswith(bounds.removeprefix(">="))
    assert pins(LOCK, name) == [newest]


def test_the_readme_says_up_to_which_airflow_it_was_tried():
    oldest, newest = TRIED[AIRFLOW]
    assert f"Airflow from {oldest}, tried up to {newest}" in " ".join((ROOT / "README.md").read_text().split())


installed = cache(metadata.packages_distributions)
BROUGHT = {"openlineage", "py4j"}
"""By OpenLineage's provider and pyspark."""


def names(requirements: list[str]) -> set[str]:
    return {split(each)[0].lower() for each in requirements if "extra ==" not in each}


def distributions_of(found: Import) -> set[str]:
    """The distributions that may have what is imported."""
    parts = found.name.split(".")
    if parts[:2] == ["airflow", "providers"]:
        return {"-".join(["apache-airflow-providers", *parts[2:end]]) for end in (3, 4)}
    return {each.lower() for each in installed().get(parts[0], ())}


def test_what_is_imported_is_declared_or_comes_with_airflow_and_a_provider_is_declared():
    declared = names([*PROJECT["dependencies"], *chain(*EXTRAS.values())])
    core = names([*metadata.requires("apache-airflow-core"), *metadata.requires("apache-airflow-task-sdk")])
    known = declared | {"apache-airflow-core", *(each for each in core if "-providers-" not in each)}
    foreign = [each for path in sources() for each in imports_of(path) if each.top not in OWN | BROUGHT]
    assert foreign
    assert {each.name for each in foreign if not distributions_of(each) & known} == set()


def test_the_lock_names_versions_and_no_place():
    assert "://" not in LOCK
    assert not re.search(r"^\s*-", LOCK, re.MULTILINE), "options, editable or hashed requirements"
    assert " @ " not in LOCK


APART = "google"
"""The extra whose provider brings some hundred packages, which would hold others back: the tests pin what they need."""


def test_the_lock_has_every_direct_dependency():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    of_groups = [each for group in groups.values() for each in group if isinstance(each, str)]
    direct = [
        *PROJECT["dependencies"],
        *of_groups,
        *(name for extra in EXTRAS if extra != APART for name in EXTRAS[extra]),
    ]
    names = {split(requirement)[0] for requirement in direct}
    assert {name for name in names if not pins(LOCK, name)} == set()
    (locked,) = re.findall(r"^LOCKED := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(locked.split()) == set(EXTRAS) - {APART}


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


def test_the_wheel_has_the_example_dags_for_copying(wheel):
    examples = {f"airflow_provider_orderedkafka/examples/{path.name}" for path in ROOT.glob("dags/*.py")}
    assert "airflow_provider_orderedkafka/examples/orders_ordered.py" in examples
    assert examples <= set(wheel.namelist())


def test_airflow_makes_no_dags_of_what_is_in_the_wheel(wheel):
    assert not [name for name in wheel.namelist() if "example_dags" in name]


def test_the_wheel_has_nothing_of_demo_broker_and_tests_and_no_compiled_files(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_provider_orderedkafka"}
    assert not [name for name in wheel.namelist() if name.endswith(".pyc") or "demo" in name or "broker" in name]


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


def test_the_provider_names_the_package_that_is_installed_and_no_page_that_the_project_does_not():
    from airflow_provider_orderedkafka.provider_info import get_provider_info

    info = get_provider_info()
    assert info["package-name"] == PROJECT["name"]
    named = {each.get("external-doc-url") for each in info["integrations"]} - {None}
    assert named <= set(PROJECT.get("urls", {}).values())


def test_the_readmes_links_lead_to_the_repository_where_the_project_names_it(tmp_path):
    for name in ("README.md", "LICENSE", "hatch_build.py", "airflow_provider_orderedkafka/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    project = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(project)
    assert "](docs/airflow.md)" in hatchling("metadata", "readme", where=tmp_path)
    named = project.replace("[project.scripts]", '[project.urls]\nRepository = "https://there/x"\n\n[project.scripts]')
    (tmp_path / "pyproject.toml").write_text(named)
    readme = hatchling("metadata", "readme", where=tmp_path)
    for link in (
        "https://there/x/blob/HEAD/docs/airflow.md",
        "https://there/x/raw/HEAD/docs/before-and-after.png",
        "#versions",
    ):
        assert f"]({link})" in readme


VERSIONS = runpy.run_path(str(ROOT / "scripts" / "versions.py"))
PACKAGE = re.compile(r"(?:org\.apache\.iceberg:iceberg-spark-runtime-|io\.delta:delta-spark_)[\w.]+:[\d.]+\d")


def test_the_readme_has_only_rows_of_environments_in_their_order_and_each_passed():
    rows = VERSIONS["rows_of"]((ROOT / "README.md").read_text())
    assert list(rows) == [each.name for each in VERSIONS["ENVIRONMENTS"] if each.name in rows]
    assert not [row for row in rows.values() if "FAILED" in row]


def test_a_package_of_a_table_format_is_named_in_one_version_for_each_spark_and_that_is_the_one_that_is_tried():
    tried = {each.variables[VERSIONS["PACKAGES"]] for each in VERSIONS["ENVIRONMENTS"] if each.axis == "format"}
    places = [path for folder in ("docs", "dags", "benchmarks") for path in (ROOT / folder).rglob("*.[mp][dy]")]
    named = {name for path in places for name in PACKAGE.findall(path.read_text("utf-8"))}
    assert named == tried
    rows = re.findall(r"^\| (\d\.\d) \| (.*) \| (.*) \|$", (ROOT / "docs/tables.md").read_text("utf-8"), re.MULTILINE)
    assert [spark for spark, *_ in rows] == [version.rpartition(".")[0] for version in VERSIONS["SPARKS"]]
    for spark, *cells in rows:
        for cell, package in zip(cells, (PACKAGES["iceberg"], PACKAGES["delta"]), strict=True):
            known = spark in package.versions
            assert cell.strip("`") in (tried if known else {"none yet", "not tried"})
            assert not known or f"{spark}_" in cell


def test_the_tests_of_each_environment_are_there():
    for each in VERSIONS["ENVIRONMENTS"]:
        tests = [test.partition("::")[0] for test in each.tests if test.startswith("tests/")]
        assert tests
        assert [test for test in tests if not (ROOT / test).exists()] == []
        named = [test.partition("[")[0].split("::") for test in each.tests if "::" in test]
        assert [test for file, test in named if f"\ndef {test}(" not in (ROOT / file).read_text()] == []


def test_a_row_says_how_many_tests_passed_only_when_they_were_run_again_and_how_many_did_not_run():
    assert VERSIONS["summed"](["122 passed, 3 warnings"]) == "122 passed"
    assert VERSIONS["summed"](["1 failed, 121 passed", "1 passed, 7 deselected"]) == (
        "122 passed, 1 of them at the second try"
    )
    assert VERSIONS["summed"](["90 passed, 6 skipped"]) == "90 passed, 6 skipped"


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


RELEASE = runpy.run_path(str(ROOT / "scripts" / "release.py"))
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n{}\n## [0.4.2] - 2026-01-02\n\n### Added\n\n- a\n"


@pytest.mark.parametrize(
    ("unreleased", "said"),
    [
        ("", "the changelog has nothing that is not in it"),
        ("### Fixed\n\n- a\n", "the changelog has Fixed beyond it, so the next one is 0.4.3"),
        (
            "### Added\n\n- a\n\n### Fixed\n\n- b\n",
            "the changelog has Added, Fixed beyond it, so the next one is 0.5.0",
        ),
    ],
)
def test_the_next_version_follows_from_the_changelog(unreleased, said):
    assert RELEASE["what_is_next"](CHANGELOG.format(unreleased), "0.4.2") == said


def test_before_the_first_release_the_next_version_is_that_of_the_checkout():
    nothing_released = CHANGELOG.format("### Added\n\n- a\n").partition("## [0.4.2]")[0]
    assert RELEASE["what_is_next"](nothing_released, "0.1.0") == "nothing is released, so the next one is 0.1.0"


def test_a_version_that_is_not_the_changelog_s_newest_ends_the_rehearsal():
    with pytest.raises(SystemExit, match=r"'Unreleased' .*'0\.4\.2' .*'0\.5\.0'"):
        RELEASE["what_is_next"](CHANGELOG.format(""), "0.5.0")


def test_the_changelog_and_the_version_of_this_checkout_go_together():
    assert RELEASE["what_is_next"]((ROOT / "CHANGELOG.md").read_text(), RELEASE["version"]())


def test_the_rehearsal_follows_each_command_of_the_readme_s_use_it():
    commands = RELEASE["commands"]((ROOT / "README.md").read_text())
    starts = [" ".join(line.split()[:3]) for line in commands]
    assert starts[0] == "airflow db migrate"
    assert starts[-1] == "airflow dags test"
    assert {"airflow connections add", "orderedkafka doctor"} <= set(starts)
    assert sum(RELEASE["ADDRESS"] in line for line in commands) == 1


def test_the_rehearsal_tries_each_python_that_the_package_is_for():
    assert [*RELEASE["PYTHONS"]] == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
