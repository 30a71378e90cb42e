"""Mutants: the tables fit the product as it is, and a survivor is told from one that was caught."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "mutants.py"))
Mutant, judged = SCRIPT["Mutant"], SCRIPT["judged"]
TABLE = SCRIPT["read_tables"](ROOT / SCRIPT["TABLES"])


def misfit(mutant, folder):
    """Why it is no mutant of the product as it is, if it is none."""
    copy = folder / mutant.file
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text((ROOT / mutant.file).read_text())
    try:
        mutant.apply(folder)
        compile(copy.read_text(), copy, "exec")
    except (ValueError, SyntaxError) as error:
        return str(error)
    missing = [test for test in mutant.tests if not there_is(test)]
    return f"there is no {missing}" if missing else ""


def there_is(test):
    file, *names = test.partition("[")[0].split("::")
    text = (ROOT / file).read_text() if (ROOT / file).exists() else None
    return text is not None and all(re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE) for name in names)


def test_each_mutant_applies_to_the_product_as_it_is_and_its_tests_are_there(tmp_path):
    found = {mutant.name: misfit(mutant, tmp_path) for mutant in TABLE}
    assert {name: said for name, said in found.items() if said} == {}


def test_every_mutant_has_a_name_of_its_own():
    assert len({mutant.name for mutant in TABLE}) == len(TABLE)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A product of one function, with a test."""
    root = tmp_path_factory.mktemp("checkout")
    files = {
        "product.py": "def most(one, other):\n    return max(one, other)  # the larger\n",
        "conftest.py": 'import hypothesis\nhypothesis.settings.register_profile("mutants")\n',
        "test_product.py": "from product import most\n\ndef test_most():\n    assert most(1, 2) == 2\n",
        "test_wrong.py": "def test_wrong():\n    assert False\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    return root


def mutant(edits, test="test_product.py"):
    return Mutant("smallest", "product.py", edits, (test,))


WRONG = {
    "caught": ({"max(": "min("}, "test_product.py::test_most", ""),
    "harmless": ({"# the larger": "# the smaller"}, "", "SURVIVED"),
    "not there": (
        {"minimum": "max"},
        "",
        "DOES NOT APPLY: this must be in product.py exactly once, and is there 0 times",
    ),
    "there twice": (
        {"one": "two"},
        "",
        "DOES NOT APPLY: this must be in product.py exactly once, and is there 2 times",
    ),
    "broken": ({"def most": "def least"}, "", "NOT KNOWN: "),
}


@pytest.fixture(scope="module")
def verdicts(checkout):
    return dict(zip(WRONG, judged(checkout, [mutant(edits) for edits, _, _ in WRONG.values()]), strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_a_mutant_is_caught_or_told_with_what_is_wrong(checkout, verdicts, name):
    _, by, wrong = WRONG[name]
    verdict = verdicts[name]
    assert verdict.by == by
    assert verdict.wrong.startswith(wrong)
    assert bool(verdict.wrong) == bool(wrong)
    assert "max(one, other)  # the larger" in (checkout / "product.py").read_text()


def test_tests_that_fail_without_any_mutant_catch_nothing(checkout):
    (verdict,) = judged(checkout, [mutant({"max(": "min("}, "test_wrong.py")])
    assert not verdict.by
    assert verdict.wrong


def test_tests_that_take_too_long_leave_the_verdict_open(checkout):
    (checkout / "test_slow.py").write_text(
        "import time\nfrom product import most\n\ndef test_slow():\n    time.sleep(60 * (most(0, 1) == 0))\n"
    )
    (verdict,) = judged(checkout, [mutant({"max(": "min("}, "test_slow.py")], seconds=1)
    assert "NOT KNOWN: " in str(verdict)


def test_a_word_that_no_mutant_has_is_an_error_that_lists_those_that_there_are(capsys):
    assert SCRIPT["main"](["no such word"]) == 2
    assert set(capsys.readouterr().err.splitlines()) > {mutant.name for mutant in TABLE}
