"""What the values of all services have, and what one makes its operator of.

Each makes the operator of its own Airflow provider, from the application's arguments. Nothing that is secret is
in a request: Kafka's public settings go as one word, and the secret ones lie in a store of the service's own, or a
function fetches them where Spark runs. What is missing is said when the DAG is parsed, or by the resolve task, before
an attempt is counted.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..core.codec import packed
from ..core.notation.secrets import is_secret
from ..core.notation.spelling import parameters
from ..errors import SettingError
from ..hooks.launching import kafka_options, packaged_for
from ..hooks.submission import check_classic
from ..job import LONGEST, Job, bundle_name
from ..load import OrderedLoad
from ..locations import exists

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

LABEL: Final = 63
"""Characters of a label, at Kubernetes and at Google."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a function given as `spark=` gets, to make the operator that runs the application.

    :param load: Name of the load.
    :param application: Path of the application, as this DAG file sees it.
    :param arguments: Its command line, but for Kafka's settings: `["--work", ...]`, a word that nothing on its way
        changes. (a template)
    :param report: The location of its report. (a template)
    :param task: Arguments that the operator must get, as `**launch.task`.
    """

    load: str
    application: str
    arguments: tuple[str, ...]
    report: str
    task: Mapping[str, Any]


Launcher = Callable[[Launch], "BaseOperator"]

IN_THE_CONNECTION: Final = "it is in Airflow's Kafka connection, which the load names: kafka_conn_id="
ELSEWHERE: Final = {
    "application": "set it with rows=Rows(application=Application('my_app.py')), a path below code=",
    "checkpoint": "it is an argument of ordered_load(): checkpoint='s3://bucket/orderedkafka'",
    "servers": IN_THE_CONNECTION,
    "options": IN_THE_CONNECTION,
    **dict.fromkeys(("retries", "pool", "queue"), "it is an argument of a task: tasks={'load': {...}}"),
}


@dataclass(frozen=True, slots=True)
class Service(ABC):
    """What all of them have; `extra` is that of this package which brings the operator's provider."""

    extra: ClassVar[str]

    code: str
    conn_id: str = field(default="", kw_only=True)
    deferrable: bool = field(default=True, kw_only=True)
    operator: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("operator", "conf", "settings", "spec"):
            given = getattr(self, name, {})
            if not isinstance(given, Mapping):
                raise SettingError(f"{_name(self)}: {name} must be values by name, found {given!r}")
        for name in ("py_files", "python_modules"):
            several = getattr(self, name, ())
            if isinstance(several, str) or not all(isinstance(each, str) for each in several):
                raise SettingError(f"{_name(self)}: {name} must be a tuple of texts, found {several!r}")
        for name in ("executors", "hours", "workers"):
            number = getattr(self, name, 1)
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise SettingError(f"{_name(self)}: {name} must be an integer from 1 on, found {number!r}")
        check_conf(_name(self), getattr(self, "conf", {}))
        for name in ("settings", "spec"):
            check_public(_name(self), dict(_single(getattr(self, name, {}))), "the")
        if not isinstance(self.code, str) or not self.code:
            raise SettingError(
                f"{_name(self)}: code must be the folder with what `orderedkafka bundle` writes, such as "
                f"'s3://bucket/code', found {self.code!r}"
            )

    @abstractmethod
    def __call__(self, launch: Launch) -> "BaseOperator":
        """The operator; `SettingError` where its provider is missing."""

    def made(self, kind: Any, launch: Launch, asked: Mapping[str, Any]) -> "BaseOperator":
        """The operator, with what its author says of it put over what is asked for."""
        found: BaseOperator = kind(**over(asked, self.operator), **launch.task)
        return found

    @property
    def without_connection(self) -> str:
        """What the operator does where its connection is not defined; empty where it fails."""
        return ""

    @property
    def bundle(self) -> str:
        return f"{self.code.rstrip('/')}/{bundle_name()}"

    def needed(self, job: Job) -> list[str]:
        """What Spark reads there: this package's code, what else is named, and the application."""
        own = "" if job.rows.application is None else job.rows.application.file
        given = [self.bundle, getattr(self, "environment", None), *getattr(self, "py_files", ())]
        return [*filter(None, given), self.application(own, packaged_for(job.to))]

    def application(self, own: str, packaged: str) -> str:
        """Where the application is: a relative path of one's own begins at `code`, as the packaged ones do."""
        name = own or PurePosixPath(packaged).name
        return name if ":/" in name or name.startswith("/") else f"{self.code.rstrip('/')}/{name}"

    def check_shipped(self, load: str, shipped: Path | None) -> None:
        """`SettingError` for a transform beside the DAG file that is not shipped to where Spark runs."""
        if shipped is not None and not getattr(self, "py_files", True):
            there = f"{self.code.rstrip('/')}/{shipped.name}{'' if shipped.is_file() else '.zip'}"
            raise SettingError(
                f"load {load!r}: its transform is in {str(shipped)!r}, which {_name(self)} does not see: copy it to "
                f"{there!r}, and name it there with py_files=({there!r},)"
            )

    def options(self, load: OrderedLoad, job: Job) -> str:
        """Kafka's settings as one word; `SettingError` where that would show a secret, or the code is not there."""
        missing = next((place for place in self.needed(job) if exists(place) is False), None)
        if missing is not None:
            raise SettingError(
                f"load {load.name!r}: {_name(self)} looks for {missing!r}, and it is not there: write this release's "
                f"code into a folder with `orderedkafka bundle code/`, and copy that to {self.code!r}, or what is your "
                "own to where it is named"
            )
        return self.packed_settings(load, job)

    def packed_settings(self, load: OrderedLoad, job: Job) -> str:
        """Kafka's settings as one word; `SettingError` where that would show a secret, or be too long."""
        found = kafka_options(load, job)
        secret = sorted(name for name, value in found.items() if is_secret(name, value))
        if secret and not getattr(self, "secret", None):
            also = "name a secret of the service's own with secret=; or " if hasattr(self, "secret") else ""
            raise SettingError(
                f"load {load.name!r}: Kafka's setting {secret[0]!r} is a secret, which {_name(self)} could only pass "
                f"as an argument for all to see: {also}leave secrets out of the connection, and name a function that "
                "makes them where Spark runs ('orderedkafka.resolver': 'package.module:function')"
            )
        word = packed(json.dumps({name: value for name, value in found.items() if name not in secret}))
        if len(word) > LONGEST:
            largest = max(found, key=lambda name: len(found[name]))
            raise SettingError(
                f"load {load.name!r}: Kafka's settings are {len(word):,} characters as one argument, but services "
                f"take {LONGEST:,}: the longest is {largest!r}; name a file on Spark's machines instead, or let a "
                "resolver set it there ('orderedkafka.resolver': 'package.module:function')"
            )
        return word


def _name(service: object) -> str:
    return type(service).__name__


def check_conf(service: str, conf: Mapping[str, Any]) -> None:
    """`SettingError` for a secret among Spark's settings, and for what makes the session one of Spark Connect."""
    check_public(service, conf)
    check_classic(conf)


def check_public(service: str, settings: Mapping[str, Any], whose: str = "Spark's") -> None:
    """`SettingError` for a secret among settings, which each service shows."""
    for name, value in settings.items():
        if is_secret(name, str(value)) and "{{secrets/" not in str(value):
            raise SettingError(
                f"{service}: {whose} setting {name!r} is a secret, and services show their settings: leave it out, and "
                "let the service's own identity or its store of secrets grant what it is for"
            )


def _single(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each setting that is none of settings itself, by its last name; what has a name and a value, by that name."""
    for name, value in settings.items():
        several = value if isinstance(value, list | tuple) else [value]
        inside = [each for each in several if isinstance(each, Mapping)]
        for each in inside:
            yield from [(str(each["name"]), each["value"])] if {"name", "value"} <= {*each} else _single(each)
        if not inside:
            yield name, value


@contextmanager
def provider(service: Service) -> Iterator[None]:
    """`SettingError` where the operator's provider is not installed."""
    try:
        yield
    except ImportError as error:
        raise SettingError(
            f"spark={_name(service)}(...) makes an operator of a provider that is not installed here ({error}): pip "
            f"install 'airflow-provider-orderedkafka[{service.extra}]' where DAGs are parsed and tasks run"
        ) from error


def runs_anew(kind: type) -> dict[str, bool]:
    """The arguments by which an operator takes no run that has succeeded, or has other arguments, for the next one."""
    return {"durable": False} if "durable" in parameters(kind) else {}


def over(given: Any, more: Any) -> Any:
    """What is given, with more put over it, where both are mappings by name, and after it, where both are lists."""
    if isinstance(given, list) and isinstance(more, list | tuple):
        return [*given, *more]
    if not isinstance(given, Mapping) or not isinstance(more, Mapping):
        return more
    return {**given, **{name: over(given.get(name, {}), value) for name, value in more.items()}}


def named(load: str, longest: int) -> str:
    """The load's name, as a label or a part of a name takes it."""
    return re.sub(r"[^a-z0-9]+", "-", load.lower())[:longest].strip("-")
