"""The pages of the site that are made of the code: values, operators, options, commands, errors.

Public names are those of docs/api.md. Their modules are parsed and not imported, which takes no Airflow and no Spark.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from inspect import cleandoc
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from airflow_provider_orderedkafka import errors  # noqa: E402 - found by the line above
from airflow_provider_orderedkafka.errors import OrderedKafkaError  # noqa: E402
from airflow_provider_orderedkafka.spark.application.command import ARGUMENTS  # noqa: E402
from airflow_provider_orderedkafka.spark.connector.option_tables import (  # noqa: E402
    APPLICATION_SINK,
    APPLICATION_SOURCE,
    SINK,
    Option,
    OptionTable,
)
from airflow_provider_orderedkafka.tools import cli  # noqa: E402

PACKAGE = "airflow_provider_orderedkafka"
NAMES = re.compile(rf"^\| (`{PACKAGE}\.[^|]+) \|", re.MULTILINE)
PARAMETER = re.compile(r"^:param (\w+): (.*(?:\n {4}.*)*)", re.MULTILINE)
EXAMPLES = re.compile("orderedkafka ")
"""What the text of a command goes on with, if that is nothing but commands."""

OPERATORS = ("sensors", "triggers", "operators", "hooks")
GROUPS = {
    "topics": ("Which topics: exactly one of", APPLICATION_SOURCE),
    "span": ("From where to where", APPLICATION_SOURCE),
    "pace": ("How much at a time, for streams", APPLICATION_SOURCE),
    "how": ("How to read", APPLICATION_SOURCE),
    "registry": ("A schema registry, for applications", APPLICATION_SOURCE),
    "sink": ("Writing to topics", SINK),
    "application": ("Writing to topics by an application", APPLICATION_SINK),
}


LONGEST = 60
"""Characters of a default that is shown."""


@dataclass(frozen=True, slots=True)
class Documented:
    """A public name: where it is imported from, what it says of itself, and its parameters with their defaults."""

    module: str
    name: str
    doc: str
    defaults: dict[str, str]

    def markdown(self) -> str:
        """Its section of a page."""
        text, *_ = self.doc.partition("\n:param ")
        head = f"### {self.name}\n\n```python\nfrom {self.module} import {self.name}\n```\n\n{text.strip()}\n"
        return head + _table(("parameter", "default", "meaning"), self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for name, what in PARAMETER.findall(self.doc):
            default = self.defaults.get(name, "")
            yield f"`{name}`", f"`{default}`" if default else "", _flat(what)


def values() -> str:
    """What a DAG is written with, and what is called outside of one."""
    names = [each for each in public() if each.module.split(".")[1:2] != ["errors"] and not _is_operator(each)]
    inside = [each for each in names if each.module in (PACKAGE, f"{PACKAGE}.assets", f"{PACKAGE}.dag")]
    outside = [each for each in names if each not in inside]
    start = (
        "# Values and functions\n\nA parameter without a default is required. [Public API](api.md) says what stays.\n"
    )
    return "\n".join([start, "## In a DAG\n", *_sections(inside), "## In PySpark and Python\n", *_sections(outside)])


def operators() -> str:
    """What `ordered_load` is made of."""
    start = "# Operators\n\n`ordered_load` makes these. All take Airflow's own arguments, too.\n"
    return "\n".join([start, *_sections(filter(_is_operator, public()))])


def options() -> str:
    """All options, by group, and those of Spark's connector that are refused."""
    start = "# Options\n\n`spark.read`, `readStream`, `df.write` and the applications take these.\n"
    refused = {**APPLICATION_SOURCE.instead, **SINK.instead}
    more = _table(("option", "instead"), ((f"`{name}`", why) for name, why in refused.items()))
    return "\n".join([start, *map(_group, GROUPS), "## Refused, with what to use instead\n", more])


def commands() -> str:
    """Each command with its arguments, and those of applications."""
    start = "# Commands\n\n`orderedkafka <command> --help` says the same. [Exit codes](trouble.md#by-exit-code)\n"
    commands = [_command(f"orderedkafka {name}", parser, "##") for name, parser in cli.parsers().items()]
    rows = (
        (f"`{flag} {value}`", help_)
        for arguments in ARGUMENTS.values()
        for flag, value, _, help_ in arguments
        if help_ != argparse.SUPPRESS
    )
    title = "## Applications\n\n`ordered_replay.py`, `ordered_table.py`, and programs that call `run_available_now`.\n"
    return "\n".join([start, *commands, title, _table(("argument", "meaning"), map(_escaped, rows))])


def failures() -> str:
    """What commands and applications raise."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OrderedKafkaError)]
    rows = ((f"`{kind.__name__}`", str(errors.exit_code(kind())), _flat(str(kind.__doc__))) for kind in kinds)
    start = "# Errors\n\nBy symptom, message and exit code: [If something goes wrong](trouble.md)."
    return f"{start} All are in `{errors.__name__}`:\n{_table(('error', 'exit code', 'means'), rows)}"


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "values.md": ("Values and functions", values),
    "operators.md": ("Operators", operators),
    "options.md": ("Options", options),
    "commands.md": ("Commands", commands),
    "errors.md": ("Errors", failures),
}
"""By their names: the titles in the navigation, and what makes them."""


@cache
def public() -> tuple[Documented, ...]:
    """The names of docs/api.md."""
    found = []
    for cell in NAMES.findall((ROOT / "docs" / "api.md").read_text("utf-8")):
        first, *others = re.findall(r"`([\w.]+)`", cell)
        module = first.rpartition(".")[0]
        found += [_documented(module, path.rpartition(".")[2]) for path in (first, *others)]
    return tuple(found)


def _documented(module: str, name: str) -> Documented:
    home, tree, found = _defined(module, name)
    return Documented(module, name, cleandoc(ast.get_docstring(found) or ""), _defaults(home, tree, found))


def _defined(module: str, name: str) -> tuple[str, ast.Module, ast.ClassDef | ast.FunctionDef]:
    """The module where a name is defined, wherever this one imports it from, and its definition there."""
    path = ROOT.joinpath(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return module, tree, node
        if isinstance(node, ast.ImportFrom) and name in [each.asname or each.name for each in node.names]:
            room = module if path.is_dir() else module.rpartition(".")[0]
            return _defined(resolve_name(f"{'.' * node.level}{node.module}", room), name)
    raise LookupError(f"{module} has no {name}, which docs/api.md lists")


def _defaults(module: str, tree: ast.Module, found: ast.ClassDef | ast.FunctionDef) -> dict[str, str]:
    """The defaults of a function's parameters, of a class's, or of its fields and those of its bases."""
    if isinstance(found, ast.FunctionDef):
        given = found.args
        late = given.args[len(given.args) - len(given.defaults) :]
        pairs = [*zip(late, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        return {each.arg: _said(tree, value) for each, value in pairs if value is not None}
    made = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if made:
        return _defaults(module, tree, made[0])
    bases = [base.id for base in found.bases if isinstance(base, ast.Name)]
    above = [_defaults(*_defined(module, name)) for name in bases if _is_ours(tree, name)]
    fields = [node for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    own = {ast.unparse(node.target): _said(tree, node.value) for node in fields if node.value is not None}
    return {name: value for each in (*above, own) for name, value in each.items()}


def _is_ours(tree: ast.Module, name: str) -> bool:
    """Whether a name that a module uses is defined in it, or imported from this package."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.level or str(node.module).startswith(PACKAGE)]
    here = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return name in here | {each.asname or each.name for node in ours for each in node.names}


def _said(tree: ast.Module, value: ast.expr) -> str:
    """A default as one would write it: a constant by its value, and what `field(default_factory=dict)` makes."""
    if isinstance(value, ast.Name):
        constants = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign)]
        named = [each for each in constants if value.id in map(ast.unparse, _targets(each)) and each.value is not None]
        return _said(tree, named[0].value or value) if named else value.id
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        made = [ast.unparse(each.value) for each in value.keywords if "default" in str(each.arg)]
        return {"dict": "{}", "list": "[]", "tuple": "()"}.get(made[0], made[0]) if made else ""
    text = ast.unparse(value)
    return text if len(text) <= LONGEST else "..."


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _is_operator(each: Documented) -> bool:
    return each.module.split(".")[1:2] in [[room] for room in OPERATORS]


def _sections(names: Iterator[Documented] | list[Documented]) -> list[str]:
    return [each.markdown() for each in names]


def _group(name: str) -> str:
    title, table = GROUPS[name]
    return f"## {title}\n{_of_options(table, name)}"


def _of_options(table: OptionTable, group: str) -> str:
    rows = ((f"`{each.name}`", _default(each), each.help) for each in table.of_group(group))
    return _table(("option", "default", "what"), rows)


def _default(option: Option) -> str:
    there = f"in an application {option.in_application}" if option.in_application else ""
    return "; ".join(filter(None, (option.shown, there)))


def _command(name: str, parser: argparse.ArgumentParser, level: str) -> str:
    """A command and, below it, its own commands."""
    said, _, more_said = cleandoc(parser.description or "").partition("\n\n")
    examples = f"```sh\n{more_said}\n```" if EXAMPLES.match(more_said) else more_said
    groups = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    below = {key: each for choices in groups for key, each in choices.items()}
    shown = [each for each in parser._actions if each.help and each.help != argparse.SUPPRESS and each.dest != "help"]
    rows = [_argument(action) for action in shown if action.choices not in groups]
    more = [_command(f"{name} {key}", each, f"{level}#") for key, each in below.items()]
    return "\n".join(
        [f"{level} {name}\n", f"{said}\n", f"{examples}\n", _table(("argument", "meaning"), map(_escaped, rows)), *more]
    )


def _argument(action: argparse.Action) -> tuple[str, str]:
    takes = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    names = ", ".join(f"`{each}`" if action.nargs == 0 else f"`{each} {takes}`" for each in action.option_strings)
    default = str(action.default).replace(str(Path.home()), "~")
    return names or f"`{takes}`", str(action.help) % {"default": default, "prog": "orderedkafka"}


def _flat(text: str) -> str:
    return " ".join(text.split())


def _escaped(row: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(re.sub(r"(<[^>]+>)", r"`\1`", cell) if "`" not in cell else cell for cell in row)


def _table(titles: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(["", f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}", *lines, ""]) if lines else ""
