"""Tests say which error it is, and which values it names; how it is worded stands in `support/mistakes.txt` alone.

So a sentence can be made better without a test that has to follow it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILES = [path for path in sorted(TESTS.rglob("*.py")) if "architecture" not in path.parts]
"""All but these tests of the source and the documents, which read no messages."""

QUOTED = re.compile(r"'[^']*'|`[^`]*`|\"[^\"]*\"")
COMMAND = re.compile(r"\b(airflow|orderedkafka|ledger|pip) [a-z -]+")
PROSE = re.compile(r"(?<![\w.=/-])[a-z]{2,} [a-z]{2,}(?![\w=/(-])")
PUT_IN = "\N{HORIZONTAL ELLIPSIS}"
"""What stands for a value that an f-string puts in."""


def is_prose(text: str) -> bool:
    """Whether two plain words stand side by side, outside of quotes and of commands."""
    return PROSE.search(COMMAND.sub(PUT_IN, QUOTED.sub(PUT_IN, text))) is not None


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The literals in an expression, with their lines."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else PUT_IN for part in node.values)
        yield node.lineno, "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def looked_for(tree: ast.AST) -> Iterator[ast.expr]:
    """What is expected in a text: `match=`, what stands left of `in`, and the parts for `says` and `naming`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "match":
            yield node.value
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            yield node.left
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"says", "naming"}:
            yield node.args[-1]


def given(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a test, each with every value that the tables above the test have for it."""
    for call in function.decorator_list:
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.parametrize"):
            continue
        names = [name.strip() for _, text in texts(call.args[0]) for name in text.split(",")]
        for row in getattr(call.args[1], "elts", ()):
            cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row])
            yield from zip(names, cells if len(names) > 1 else [row], strict=False)


def worded(source: str) -> list[tuple[int, str]]:
    """The places where a test expects the wording of a message, and the words."""
    tree = ast.parse(source)
    found = [*looked_for(tree)]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            names = {name.id for each in looked_for(function) for name in ast.walk(each) if isinstance(name, ast.Name)}
            found += [cell for name, cell in given(function) if name in names]
    return sorted({place for each in found for place in texts(each) if is_prose(place[1])})


def test_no_test_expects_a_message_to_be_worded_in_one_way():
    found = [(path, *place) for path in FILES for place in worded(path.read_text("utf-8"))]
    assert [f"{path.relative_to(TESTS)}:{line}: {text}" for path, line, text in found] == []


IN_A_TABLE = """
@pytest.mark.parametrize(("given", "said"), [(1, "'a' ... 2"), (2, "the second one")])
def test_it(given, said):
    with pytest.raises(ValueError, match=said):
        it(given)
"""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("with pytest.raises(ValueError, match='the disk is full'):\n    it()", [1]),
        ("assert 'nothing to load' in said", [1]),
        ("assert f'range {name}: take it over' not in said", [1]),
        ("assert says(said, \"'topic' ... must not be empty\")", [1]),
        (IN_A_TABLE, [2]),
        ("with pytest.raises(ValueError, match=naming(\"'topic' ... orders[0]@5 ... --row-limit\")):\n    it()", []),
        ("assert 'orderedkafka ledger rewind orders' in said", []),
        ("assert f'{count} offsets' in said", []),
        ("assert it('the disk is full') == 3", []),
    ],
)
def test_what_is_worded_is_found_and_values_places_and_commands_are_not(source, lines):
    assert [line for line, _ in worded(source)] == lines
