"""What an application needs at its start: its file, the Kafka configuration, this package's code, and its transform.

In client mode secrets travel in the environment, never in arguments, files or Spark settings. In cluster mode the
driver does not see this environment: a secret needs another way there, or nothing is submitted.

A transform that a DAG names as `module:function` is checked when the DAG is parsed, and shipped with the application. A
module beside the DAG file, or a package, travels in `--py-files`. Any other one must be installed where Spark runs.
"""

import ast
import importlib
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from ..core.notation.secrets import NAMES, is_secret
from ..core.notation.spelling import nearest
from ..errors import SettingError
from ..job import OPTIONS, Job, Rows
from ..load import OrderedLoad
from ..outputs import OF_THE_SINK, OPTIONS_VARIABLE, KafkaOutput, Output
from .submission import Submission, secret_settings

SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions whose names are their own."""


def shipped_with(load: str, folder: Path, rows: Rows) -> Path | None:
    """The file or folder of the rows' transform, if it lies beside the DAG file; `SettingError` if there is none."""
    if rows.function is None:
        return None
    what = "arrow_transform" if rows.transform is None else "transform"
    module, _, function = rows.function.partition(":")
    file, shipped = _module_file(folder, module)
    if file is None:
        _check_installed(f"load {load!r}: {what}={rows.function!r}", module, folder)
    else:
        _check_defined(f"load {load!r}: {what}={rows.function!r}", file, function)
    return shipped


def _module_file(folder: Path, module: str) -> tuple[Path | None, Path | None]:
    """The module's file beside the DAG, and what has to be shipped for it."""
    path = folder.joinpath(*module.split("."))
    file = next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)
    if file is None:
        return None, None
    return file, file if file.parent == folder else folder / module.partition(".")[0]


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
    if not names & {function, "*", "__getattr__"}:
        raise SettingError(
            f"{what}: {str(file)!r} defines no {function!r}, it has {', '.join(sorted(names)) or 'nothing'}"
        )
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == function and not statement.decorator_list:
            _check_shape(what, statement)


def _check_shape(what: str, function: ast.FunctionDef) -> None:
    """`SettingError` for a function that does not take one argument, or gives nothing back."""
    given = function.args
    placed = [each.arg for each in (*given.posonlyargs, *given.args)]
    needed = [
        *placed[: len(placed) - len(given.defaults)],
        *(each.arg for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None),
    ]
    if len(needed) > 1 or (needed and needed[0] not in placed) or not (placed or given.vararg):
        found = f"it needs {', '.join(needed)}" if needed else "it takes none"
        raise SettingError(
            f"{what}: {function.name!r} is called with the rows alone, but {found}: let it take one argument, and give "
            "others defaults"
        )
    inside = list(_own_nodes(function))
    if not any(isinstance(node, ast.Raise) or (isinstance(node, ast.Return) and node.value) for node in inside):
        raise SettingError(f"{what}: {function.name!r} returns nothing: end it with `return` and the rows")


def _own_nodes(function: ast.AST) -> Iterable[ast.AST]:
    """What stands in a function, and not in those inside it."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(node)


def _defined(statement: ast.AST) -> Iterable[str]:
    """The names that a statement at the top of a module defines, and not those inside functions and classes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif not isinstance(node, SCOPES):
            yield from _defined(node)


def zipped(py_files: str | None, folder: Path) -> str | None:
    """`--py-files` with each folder as a zip of all that it has, made in this folder, with a name of its own."""
    if py_files is None:
        return None
    named = enumerate(filter(None, map(str.strip, py_files.split(","))))
    return ",".join(str(_zip(Path(each), folder, number)) if Path(each).is_dir() else each for number, each in named)


def _zip(package: Path, folder: Path, number: int) -> Path:
    target = folder / f"{package.name}-{number}.zip"  # Spark takes two files of one name for the same
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as made:
        for file in sorted(package.rglob("*")):
            name = file.relative_to(package.parent)
            if file.is_file() and not any(part.startswith((".", "__pycache__")) for part in name.parts):
                made.write(file, name)
    return target


SECRET_REFERENCE = f"spark.kubernetes.driver.secretKeyRef.{OPTIONS_VARIABLE}"
PAIR = ("pyspark", "pyspark-client")
DEFAULTS = "spark-defaults.conf"
ESCAPED = str.maketrans({**{each: f"\\{each}" for each in "\\=:#! "}, "\n": "\\n", "\r": "\\r", "\t": "\\t"})
BUNDLE = "airflow_provider_orderedkafka.spark.bundle"
PYTHON, DRIVERS_PYTHON = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"


@dataclass(frozen=True, slots=True)
class Options:
    """The Kafka configuration for the application: public options as arguments, secrets in the environment."""

    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def kafka_options(load: OrderedLoad, job: Job) -> dict[str, str]:
    """Kafka's settings for the application, those of the output's own cluster, and the schema registry's."""
    from .ordered_kafka import OrderedKafkaHook, registry_of

    options = {f"kafka.{name}": value for name, value in OrderedKafkaHook(load.kafka_conn_id).portable_config().items()}
    for conn_id in job.rows.registries:
        options |= registry_of(conn_id).options
    if job.kafka is not None and job.kafka.kafka_conn_id is not None:
        config = OrderedKafkaHook(job.kafka.kafka_conn_id).portable_config()
        options |= {f"{OF_THE_SINK}kafka.{name}": value for name, value in config.items()}
    return options


def options_for(options: Mapping[str, str], *, clustered: bool, conf: Mapping[str, str], load: str) -> Options:
    """Split the options into arguments and environment; `SettingError` if a secret cannot travel safely."""
    if not clustered:
        return Options(environment={OPTIONS_VARIABLE: json.dumps(dict(options))})
    secret = sorted(name for name, value in options.items() if is_secret(name, value))
    if secret and SECRET_REFERENCE not in conf:
        raise SettingError(
            f"load {load!r}: the driver runs in the cluster, and the secret {secret[0]!r} could only go there as an "
            "argument, for all to see. Use deploy_mode='client'; or leave secrets out of the connection, and name a "
            "function that makes them there ('orderedkafka.resolver': 'package.module:function'); or, on Kubernetes, "
            f"name a secret with conf={{{SECRET_REFERENCE!r}: 'name:key'}}, which holds a JSON object of options"
        )
    plain = sorted(set(options) - set(secret))
    return Options([part for name in plain for part in _argument(name, options[name])])


def private_settings(submission: Submission, environment: Mapping[str, str]) -> str | None:
    """A file of settings with the secret ones, after what spark-submit would read anyway; None without secrets.

    `SettingError` if it is not known what spark-submit would read.
    """
    secret = secret_settings(submission)
    if not secret:
        return None
    named = submission.properties_file
    base = Path(named) if named else _defaults(submission, next(iter(secret)), {**os.environ, **environment})
    try:
        text = base.read_text("utf-8") if named or base.exists() else ""
    except (OSError, ValueError) as error:
        raise SettingError(f"spark-submit's settings in {str(base)!r} cannot be read: {error}") from error
    return "\n".join([_properties({"spark.redaction.regex": f"(?i){NAMES}"}), text, "", _properties(secret), ""])


def _defaults(submission: Submission, secret: str, environment: Mapping[str, str]) -> Path:
    """What spark-submit reads where no file of settings is named."""
    if folder := environment.get("SPARK_CONF_DIR"):
        return Path(folder) / DEFAULTS
    if home := environment.get("SPARK_HOME"):
        return Path(home) / "conf" / DEFAULTS
    program = shutil.which(str(submission.spark_binary), path=environment.get("PATH"))
    beside = None if program is None else Path(program).resolve().parents[1]
    if beside is None or not (beside / "jars").is_dir():
        raise SettingError(
            f"Spark's setting {secret!r} is a secret, which goes into a private copy of {DEFAULTS}, but "
            f"{submission.spark_binary!r} does not show where that file is: set SPARK_HOME or SPARK_CONF_DIR in the "
            "worker's environment, or name a file of settings with properties_file="
        )
    return beside / "conf" / DEFAULTS


def _properties(settings: Mapping[str, str]) -> str:
    return "\n".join(f"{name.translate(ESCAPED)}={value.translate(ESCAPED)}" for name, value in settings.items())


def _argument(name: str, value: str) -> tuple[str, str]:
    of_the_source, of_the_sink = OPTIONS
    if name.startswith(OF_THE_SINK):
        return of_the_sink, f"{name.removeprefix(OF_THE_SINK)}={value}"
    return of_the_source, f"{name}={value}"


def interpreter(python: str) -> dict[str, str]:
    """The Python of driver and executors: this one, unless the environment names another."""
    return {name: os.environ.get(name, python) for name in (PYTHON, DRIVERS_PYTHON)}


def own_spark() -> Path | None:
    """Spark's folder: SPARK_HOME, or else pyspark's own, which must be complete."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    _check_same_spark()
    spec = find_spec("pyspark")  # finds it without importing it
    return Path(spec.origin).parent if spec and spec.origin else None


def _check_same_spark() -> None:
    full, client = (next((each.version for each in distributions(name=name)), None) for name in PAIR)
    if full and client and full != client:
        raise SettingError(
            f"pyspark is {full} and pyspark-client, which Airflow's Spark provider brings, is {client}: both unpack "
            f"into one directory, so they must be the same version. Run: pip install --force-reinstall --no-deps "
            f"pyspark-client=={client} pyspark=={client}; or name the spark-submit of another Spark with spark_binary="
        )


def elsewhere(submission: Submission, environment: Mapping[str, str]) -> bool:
    """Whether the application runs in another Python than this one, to which this package has to be shipped."""
    return not submission.local or environment[PYTHON] != sys.executable


def packed(folder: Path) -> str:
    """Zip the part of this package that a cluster needs, for `--py-files`."""
    bundle = importlib.import_module(BUNDLE)  # by name: nothing of Spark is imported on Airflow's side
    return str(bundle.build_bundle(folder / "orderedkafka.zip"))


def packaged_application(name: str) -> str:
    """Path of an application that comes with this package: inside it if installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    places = [package / "spark_apps", package.parent / "spark_apps"]
    found = next((place for place in places if place.is_dir()), places[0])
    return str(found / f"{name}.py")


def missing_application(load: str, application: str, path: Path) -> SettingError:
    near = nearest(path.name, (each.name for each in path.parent.glob("*.py")))
    hint = f"did you mean {near!r}?" if near else "a relative path begins at the folder of the DAG file"
    return SettingError(f"load {load!r}: there is no application {application!r} at {str(path)!r}; {hint}")


def packaged_for(output: Output | str | None) -> str:
    return packaged_application("ordered_replay" if isinstance(output, KafkaOutput | str | None) else "ordered_table")
