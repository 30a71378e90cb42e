"""Transforms that a DAG names as `module:function`: checked when the DAG is parsed, and shipped with the application.

A module beside the DAG file, or a package, travels in `--py-files`. Any other one must be installed where Spark runs.
"""

import ast
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from airflow_provider_orderedkafka.errors import SettingError


@dataclass(frozen=True, slots=True)
class Transform:
    """A function by name, the option that passes it on, and the file or folder to ship, if it lies beside the DAG."""

    name: str
    option: str
    shipped: Path | None

    @classmethod
    def of(cls, load: str, folder: Path, transform: str | None, arrow_transform: str | None) -> Self | None:
        """That of a load whose DAG file is in the folder; `SettingError` if it cannot be what it says."""
        if transform is not None and arrow_transform is not None:
            raise SettingError(f"load {load!r} has transform= and arrow_transform=: leave one out")
        name = transform or arrow_transform
        if name is None:
            return None
        what = "transform" if transform is not None else "arrow_transform"
        module, _, function = name.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), function)):
            raise SettingError(
                f"load {load!r}: {what} must be 'module:function', such as 'my_transforms:enrich', found {name!r}"
            )
        file, shipped = _beside(folder, module)
        if file is None:
            _check_installed(f"load {load!r}: {what}={name!r}", module, folder)
        else:
            _check_defined(f"load {load!r}: {what}={name!r}", file, function)
        return cls(name, f"--{what.replace('_', '-')}", shipped)

    def added(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of spark-submit, with the transform and its file."""
        files = ",".join(filter(None, [arguments.get("py_files"), None if self.shipped is None else str(self.shipped)]))
        given = [*(arguments.get("application_args") or []), self.option, self.name]
        return {**arguments, "application_args": given, **({"py_files": files} if files else {})}


def _beside(folder: Path, module: str) -> tuple[Path | None, Path | None]:
    """The module's file beside the DAG, and what has to be shipped for it."""
    path = folder.joinpath(*module.split("."))
    file = next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)
    if file is None:
        return None, None
    top = folder / module.partition(".")[0]
    return file, top if top.is_dir() else file


def _check_installed(what: str, module: str, folder: Path) -> None:
    top = module.partition(".")[0]
    if find_spec(top) is None:
        raise SettingError(
            f"{what}: there is no {top}.py beside the DAG file, in {str(folder)!r}, and no package {top!r} is "
            "installed: put it there, or install it"
        )


def _check_defined(what: str, file: Path, function: str) -> None:
    """`SettingError` if the file is not Python, or has no such name; it is not run."""
    try:
        tree = ast.parse(file.read_text("utf-8"), str(file))
    except (SyntaxError, ValueError, OSError) as error:
        raise SettingError(f"{what}: {str(file)!r} cannot be read as Python: {error}") from error
    names = {name for statement in tree.body for name in _defined(statement)}
    if function not in names and "*" not in names:
        raise SettingError(
            f"{what}: {str(file)!r} defines no {function!r}, it has {', '.join(sorted(names)) or 'nothing'}"
        )


def _defined(statement: ast.stmt) -> Iterable[str]:
    """The names that a statement at the top of a module defines."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def zipped(py_files: str | None, folder: Path) -> str | None:
    """`--py-files` with each folder as a zip of its modules, made in this folder."""
    if py_files is None:
        return None
    return ",".join(str(_zip(Path(each), folder)) if Path(each).is_dir() else each for each in py_files.split(","))


def _zip(package: Path, folder: Path) -> Path:
    target = folder / f"{package.name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for file in sorted(package.rglob("*.py")):
            made.write(file, file.relative_to(package.parent))
    return target
