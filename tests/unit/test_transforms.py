"""Transforms by name: where they lie, whether they are there, and how they travel."""

import importlib
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from types import FunctionType

import pytest

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import packed, shipped_with, zipped
from airflow_provider_orderedkafka.job import Rows
from airflow_provider_orderedkafka.spark.application.command import read_arguments
from airflow_provider_orderedkafka.spark.lanes.making import shipped_code


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
    assert shipped_with("orders", dags, Rows(transform="mine:enrich")) == dags / "mine.py"


def test_a_folder_of_a_module_s_name_that_python_would_not_import_stays_where_it_is(dags):
    (dags / "mine").mkdir()
    (dags / "mine" / "orders.sql").touch()
    assert shipped_with("orders", dags, Rows(transform="mine:enrich")) == dags / "mine.py"


def test_a_package_beside_the_dag_travels_as_a_zip_that_python_imports_from(dags, tmp_path_factory):
    found = shipped_with("orders", dags, Rows(arrow_transform="shop.inner.orders:enrich"))
    [path] = zipped(str(found), tmp_path_factory.mktemp("attempt")).split(",")
    assert "shop/inner/orders.py" in zipfile.ZipFile(path).namelist()


def test_folders_of_one_name_and_one_named_as_this_package_s_own_code_travel_each_as_a_zip(tmp_path):
    for place in ("one/lib", "two/lib", "orderedkafka"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / f"{place.partition('/')[0]}.py").touch()
    found = zipped(f"{tmp_path}/one/lib, {tmp_path}/two/lib,{tmp_path}/orderedkafka, a.py", tmp_path)
    *zips, file = [*found.split(","), packed(tmp_path)][:-1]
    assert [zipfile.ZipFile(each).namelist() for each in zips] == [
        ["lib/one.py"],
        ["lib/two.py"],
        ["orderedkafka/orderedkafka.py"],
    ]
    assert file == "a.py"


def test_a_package_travels_whole_with_its_data_files_and_without_caches(dags, tmp_path_factory):
    shop = dags / "shop"
    for name in ("order.avsc", "inner/rates.json", "__pycache__/x.pyc", ".git/config", "inner/.hidden", "py.typed"):
        (shop / name).parent.mkdir(exist_ok=True)
        (shop / name).write_text("{}")
    os.utime(shop / "order.avsc", (0, 0))  # as images have it whose builds are reproducible
    path = zipped(str(shop), tmp_path_factory.mktemp("attempt"))
    names = {name.removeprefix("shop/") for name in zipfile.ZipFile(path).namelist()}
    modules = {"__init__.py", "inner/__init__.py", "inner/orders.py"}
    assert names == modules | {"order.avsc", "inner/rates.json", "py.typed"}
    code = "import pkgutil; print(pkgutil.get_data('shop', 'order.avsc').decode())"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {path!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{}\n"


def test_an_installed_module_stays_where_it_is(dags):
    assert shipped_with("orders", dags, Rows(transform="json.decoder:scan")) is None


NAMES = """
import json as imported
from os import path
if True:
    def conditional(frame): return frame
try:
    import fast as chosen
except ImportError:
    chosen, (spare, *rest) = None, (1, 2)
with open("x") as opened:
    pass
def outer(frame):
    def inner(row): return row
    local = 1
    return inner
class Methods:
    def method(self): ...
made = [each for each in (outer,)] and (lambda parameter: (walrus := parameter))
"""


@pytest.mark.parametrize(
    "name", ["imported", "path", "conditional", "chosen", "spare", "rest", "opened", "outer", "Methods", "made"]
)
def test_what_a_module_defines_at_its_top_is_a_name_of_it(dags, name):
    (dags / "named.py").write_text(NAMES)
    assert shipped_with("orders", dags, Rows(transform=f"named:{name}")) is not None


@pytest.mark.parametrize("name", ["inner", "local", "method", "each", "walrus", "parameter", "fast", "row"])
def test_what_only_a_function_or_a_class_of_it_knows_is_refused_when_the_dag_is_parsed(dags, name):
    (dags / "named.py").write_text(NAMES)
    with pytest.raises(SettingError, match=f"'{name}'"):
        shipped_with("orders", dags, Rows(transform=f"named:{name}"))


def test_a_module_that_makes_its_names_when_they_are_asked_for_is_taken_at_its_word(dags):
    (dags / "lazy.py").write_text("def __getattr__(name):\n    return lambda frame: frame\n")
    assert shipped_with("orders", dags, Rows(transform="lazy:anything")) is not None


def test_no_transform_is_none(dags):
    assert shipped_with("orders", dags, Rows()) is None


SHIPPED = {
    "mine.py": "import shop.inner.orders, zipped_up, installed\n\ndef enrich(frame):\n    from late import found\n",
    "shop/inner/orders.py": "from . import rates\nfrom .. import others\n",
    "shop/inner/rates.py": "",
    "shop/others.py": "import mine, spaces.inner.deep\n",
    "spaces/inner/deep.py": "",
    "late.py": "try:\n    import of_nowhere\nexcept ImportError:\n    pass\n",
    "shop/unused.py": "",
    "unrelated.py": "",
    "site-packages/installed.py": "",
}
COUNT = {"mine.py", "shop/__init__.py", "shop/inner/__init__.py", "shop/inner/orders.py", "shop/inner/rates.py"}
COUNT |= {"shop/others.py", "spaces/inner/deep.py", "late.py", "zipped_up.py", "rates.json"}


@pytest.mark.parametrize("edited", [*SHIPPED, "shop/__init__.py", "zipped_up.py", "rates.json", ""])
def test_the_code_of_a_transform_is_what_it_imports_of_what_ships_with_it(dags, monkeypatch, edited):
    archive = dags / "more.zip"
    for place in (dags, dags / "site-packages", archive):
        monkeypatch.syspath_prepend(place)

    def digest(more, when):
        for name, text in SHIPPED.items():
            (dags / name).parent.mkdir(parents=True, exist_ok=True)
            (dags / name).write_text(text + "\n")
        with zipfile.ZipFile(archive, "w") as made:
            for name in ("zipped_up.py", "rates.json"):
                made.writestr(zipfile.ZipInfo(name, (when, 1, 1, 0, 0, 0)), more if name == edited else "")
        if (dags / edited).is_file():
            with (dags / edited).open("a") as file:
                file.write(more)
        importlib.invalidate_caches()
        return arguments(transform="mine:enrich").code

    assert (digest("", 2020) != digest("# another\n", 2021)) == (edited in COUNT)


def arguments(transform=None, function=len):
    options = [part for each in ("kafka.bootstrap.servers=b:1", "subscribe=a") for part in ("--option", each)]
    found = read_arguments(["--checkpoint", "/c", *options], "app")
    job = replace(found.job, rows=Rows(transform=transform))
    return replace(found, job=job, transform=function)


def test_code_that_cannot_be_read_is_never_the_same():
    unread = FunctionType(compile("0", "?", "eval"), {"__name__": "of_nowhere"})
    assert len({arguments(function=each).code for each in (unread, unread, partial(unread, 1))}) == 3
    assert len({arguments(function=arguments).code for _ in range(2)}) == 1


def test_of_a_module_of_this_package_only_its_own_code_counts():
    name = "airflow_provider_orderedkafka.decoding.bad_records"
    assert [found for found, _ in shipped_code({name})] == [name]
