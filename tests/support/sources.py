"""The package's own source, as the tests of its architecture read it: modules, rooms and what imports what."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_provider_orderedkafka"
AIRFLOW_SIDE = "the Airflow side"
IN_ROOMS = {"audit", "compat", "core", "decoding", "kafka", "loads", "spark", "tools"}
OF_THEIR_OWN = {"compat", "kafka", "spark", "tools"}
"""In these folders each module is a room by itself, as `errors` and `load` are."""


@dataclass(frozen=True)
class Import:
    """One imported module, and whether importing the importer imports it."""

    name: str
    line: int
    at_once: bool

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]

    @property
    def room(self) -> str | None:
        """The room that it is in; none for other packages and for the package's own root."""
        found = _found(self.name)
        return None if found is None or found == PACKAGE / "__init__.py" else room_of(found)


@cache
def sources() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def room_of(path: Path) -> str:
    folder = ".".join(path.relative_to(PACKAGE).parts[:-1])
    if not folder and path.stem in {"errors", "job", "load", "outputs", "reader", "storage"}:
        return path.stem
    if folder.partition(".")[0] not in IN_ROOMS:
        return f"{AIRFLOW_SIDE}.{folder or path.stem}"
    return f"{folder}.{path.stem}".removesuffix(".__init__") if folder in OF_THEIR_OWN else folder


def in_rooms(*rooms: str) -> list[Path]:
    """The sources in these rooms, and in the rooms inside of them."""
    return [path for path in sources() if any(f"{room_of(path)}.".startswith(f"{room}.") for room in rooms)]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(_imports(tree_of(path), package_of(path), at_once=True))


def package_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parts[:-1])


def imports(source: str, package: str = "") -> list[Import]:
    """What a module of this package imports, relative names resolved."""
    return list(_imports(ast.parse(source), package, at_once=True))


def _imports(node: ast.AST, package: str, *, at_once: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = imported_from(child, package)
            yield from (Import(name, child.lineno, at_once) for name in _targets(module, child))
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), package, at_once=False)
            for statement in child.orelse:
                yield from _imports(ast.Module([statement], []), package, at_once=at_once)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, package, at_once=at_once and not inside)


def imported_from(node: ast.ImportFrom, package: str) -> str:
    return resolve_name(f"{'.' * node.level}{node.module or ''}", package)


def _targets(module: str, node: ast.ImportFrom) -> list[str]:
    """`from package.room import module` imports the module, `from package.module import name` the module."""
    inside = {f"{module}.{alias.name}" for alias in node.names}
    modules = sorted(name for name in inside if _found(name) is not None)
    return [*modules, *([module] if len(modules) < len(inside) else [])]


def _found(name: str) -> Path | None:
    if name.partition(".")[0] != PACKAGE.name:
        return None
    path = ROOT.joinpath(*name.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)
