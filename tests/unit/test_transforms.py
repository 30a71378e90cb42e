"""Transforms by name: where they lie, whether they are there, and how they travel."""

import zipfile

import pytest

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.transforms import Transform, zipped


@pytest.fixture
def dags(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import pyspark_of_nowhere\n\ndef enrich(frame):\n    return frame\n\nother = enrich\n"
    )
    (tmp_path / "shop" / "inner").mkdir(parents=True)
    for name in ("shop/__init__.py", "shop/inner/__init__.py", "shop/inner/orders.py"):
        (tmp_path / name).write_text("def enrich(frame):\n    return frame\n")
    return tmp_path


def test_a_module_beside_the_dag_travels_with_the_application_and_is_not_run(dags):
    found = Transform.of("orders", dags, "mine:enrich", None)
    assert found is not None
    assert found.added({"application_args": ["--x"], "py_files": "a.py"}) == {
        "application_args": ["--x", "--transform", "mine:enrich"],
        "py_files": f"a.py,{dags / 'mine.py'}",
    }


def test_a_package_beside_the_dag_travels_as_a_zip_that_python_imports_from(dags, tmp_path_factory):
    found = Transform.of("orders", dags, None, "shop.inner.orders:enrich")
    assert found is not None
    added = found.added({})
    assert added["application_args"] == ["--arrow-transform", "shop.inner.orders:enrich"]
    [path] = zipped(added["py_files"], tmp_path_factory.mktemp("attempt")).split(",")
    assert "shop/inner/orders.py" in zipfile.ZipFile(path).namelist()


def test_an_installed_module_stays_where_it_is(dags):
    found = Transform.of("orders", dags, "json.decoder:scan", None)
    assert found is not None
    assert found.added({}) == {"application_args": ["--transform", "json.decoder:scan"]}


def test_no_transform_is_none(dags):
    assert Transform.of("orders", dags, None, None) is None


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("mine", None), "must be 'module:function'"),
        (("mine:", None), "must be 'module:function'"),
        (("../mine:enrich", None), "must be 'module:function'"),
        (("mine:enrihc", None), r"defines no 'enrihc', it has enrich, other"),
        (("broken:enrich", None), "cannot be read as Python"),
        (("nowhere_at_all:enrich", None), r"no nowhere_at_all\.py beside the DAG file"),
        (("mine:enrich", "mine:enrich"), "leave one out"),
    ],
)
def test_a_transform_that_cannot_be_is_refused_when_the_dag_is_parsed(dags, names, why):
    (dags / "broken.py").write_text("def enrich(:\n")
    with pytest.raises(SettingError, match=why):
        Transform.of("orders", dags, *names)
