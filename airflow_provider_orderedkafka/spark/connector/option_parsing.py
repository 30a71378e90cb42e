"""The description of an option, and the parsers of values.

Spark passes options in lower case. An error suggests the nearest known option, or says which values an option takes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from airflow_provider_orderedkafka.core.codec import PACKED, unpacked
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.lanes import KeepOrder
from airflow_provider_orderedkafka.core.notation.durations import parse_duration
from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.core.notation.starts import parse_moment, parse_start
from airflow_provider_orderedkafka.core.notation.subscriptions import Subscription, parse_subscription
from airflow_provider_orderedkafka.core.order.positions import whole_number
from airflow_provider_orderedkafka.errors import SettingError

_OF_SPARK: Final = re.compile(r"(\d+)(min)?")

Parse = Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `parse` makes its value of its name and text. `help` is Markdown, for `--help` and the documents.

    A name that ends with `*` stands for all that begin so, which are for others to parse.

    `default` is a text, as it would be given; `unset` says in words what holds without one, or when the default does.
    `in_application` says so where an application has another; `elsewhere`, how an application is told otherwise.
    `group` names the option's table in the documents.
    """

    name: str
    parse: Parse | None
    group: str
    help: str
    default: str = ""
    unset: str = ""
    in_application: str = ""
    elsewhere: str = ""
    stream_only: bool = False
    beside_range: bool = False

    @property
    def shown(self) -> str:
        """The default, for people."""
        return f"`{self.default}` {self.unset}".strip() if self.default else self.unset

    @property
    def told(self) -> str:
        """What the `--help` of an application says of it."""
        default = self.in_application or self.shown
        return (f"{self.help} (default: {default})" if default else self.help).replace("`", "")


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one place. `instead` refuses some of them, with a way out; `ignored` are Spark's."""

    options: tuple[Option, ...]
    of: str = ""
    means_nothing: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()

    @property
    def parsers(self) -> dict[str, Parse]:
        """The parser of each option."""
        return {option.name: option.parse for option in self.options if option.parse is not None}

    def parsed(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The options but `kafka.*` and the like, parsed; raises `SettingError` for one that is unknown or wrong."""
        parsers = self.parsers
        others = tuple(option.name.removesuffix("*") for option in self.options if option.parse is None)
        canonical = {name.lower(): name for name in parsers}
        values = {}
        for name, text in given.items():
            known = canonical.get(name.lower())
            if known is not None:
                values[known] = parsers[known](known, text)
            elif not name.lower().startswith(others) and name.lower() not in self.ignored:
                raise self._unknown(name)
        return values

    def value(self, values: Mapping[str, Any], name: str) -> Any:
        """An option's value, or its default."""
        if name in values:
            return values[name]
        return next(o.parse(name, o.default) for o in self.options if o.name == name and o.parse is not None)

    def _unknown(self, given: str) -> SettingError:
        for name, instead in self.instead.items():
            if given.lower() == name.lower():
                return SettingError(f"option {name!r} {self.means_nothing}: {instead}")
        names = [option.name for option in self.options]
        hint = meant(given, names, f"known are {', '.join(map(repr, names))}")
        return SettingError(f"unknown option {given!r}{self.of}: {hint}")

    def of_group(self, *groups: str) -> list[Option]:
        """The options in these groups."""
        return [option for option in self.options if option.group in groups]

    def markdown(self, group: str) -> str:
        """The table of a group, in Markdown."""
        shown = self.of_group(group)
        rows = "".join(f"| `{option.name}` | {option.shown} | {option.help} |\n" for option in shown)
        return "| option | default | value |\n| --- | --- | --- |\n" + rows.replace("|  |", "| |")


def count(name: str, text: str) -> int:
    """A whole number from 1 on."""
    number = whole_number(text)
    if number is None:
        raise SettingError(f"option {name!r} must be a whole number from 1 on, found {text!r}")
    return number


def flag(name: str, text: str) -> bool:
    """True or false, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise SettingError(f"option {name!r} must be 'true' or 'false', found {text!r}")
    return text.strip().lower() == "true"


def one_of(*allowed: str) -> Parse:
    """One of these words."""

    def parse(name: str, text: str) -> str:
        if text not in allowed:
            *most, last = map(repr, allowed)
            raise SettingError(f"option {name!r} must be {', '.join(most)} or {last}, found {text!r}")
        return text

    return parse


def keep_order(name: str, text: str) -> KeepOrder:
    """What is kept in order, in any case."""
    found: KeepOrder = one_of(*get_args(KeepOrder))(name, text.lower())
    return found


def filled(name: str, text: str) -> str:
    """A text that is not empty."""
    if not text.strip():
        raise SettingError(f"option {name!r} must not be empty")
    return text.strip()


def names(name: str, text: str) -> tuple[str, ...]:
    """Topics, separated by commas."""
    found = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not found:
        raise SettingError(f"option {name!r} must be topics separated by commas, found {text!r}")
    return found


def duration(name: str, text: str) -> int:
    """A duration with a unit, in milliseconds."""
    return parse_duration(text, name)


def spark_duration(name: str, text: str) -> int:
    """As Spark's connector reads it, too: a number alone is milliseconds, and minutes may be `min`."""
    found = _OF_SPARK.fullmatch(text.strip().lower())
    return parse_duration(found[1] + ("m" if found[2] else "ms") if found else text, name)


def range_document(name: str, text: str) -> Range:
    """A range, as JSON, packed, or as the path of its file."""
    if text.lstrip().startswith("{"):
        return Range.from_text(text)
    if text.startswith(PACKED):
        return Range.from_text(unpacked(text))
    try:
        found = Path(text).read_text("utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingError(
            f"{name!r} must be a range document, as JSON or packed, or a path to one, found {text!r}: {why}"
        ) from error
    return Range.from_text(found)


def subscription(name: str, text: str) -> Subscription:
    """A subscription, by the option's name."""
    return parse_subscription(name, text)


def start(name: str, text: str) -> Any:
    return parse_start(text, name)


def moment(name: str, text: str) -> Any:
    return parse_moment(text, name)
