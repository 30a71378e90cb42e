"""Durations, counts and names as people spell them.

`"15m"`, `"1h30m"` or `"250ms"` become whole milliseconds; for a misspelled name the known one is suggested,
for one that belongs elsewhere its place. A value is shown as it would be written.

A bare number is refused as a duration, because Spark reads it as milliseconds and Airflow as seconds; zero needs no
unit. So is a duration too long to add to any date.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Final, TypeVar

from ...errors import SettingError

Made = TypeVar("Made", bound=Callable[..., Any])

MILLISECONDS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
LONGEST: Final = timedelta(days=1_000_000)
ALLOWED: Final = (
    "numbers with units from large to small, such as '15m', '1h30m', '2d' or '250ms' (d, h, m, s, ms), up to 1000000d"
)

_PART: Final = r"(?:(?P<{0}>[0-9]{{1,12}})\s*{0})?\s*"
_WRITTEN: Final = re.compile("".join(_PART.format(unit) for unit in MILLISECONDS))


def parse_duration(value: object, name: str) -> int:
    """Parse the duration of the setting `name`; a `SettingError` says what is allowed."""
    if isinstance(value, timedelta) and timedelta() <= value <= LONGEST:
        return value // timedelta(milliseconds=1)
    if value == 0 and not isinstance(value, bool):
        return 0
    if isinstance(value, str):
        text = value.strip()
        found = None if "M" in text else _WRITTEN.fullmatch(text.lower())
        if text == "0":
            return 0
        if text and found:
            total = sum(int(number) * MILLISECONDS[unit] for unit, number in found.groupdict().items() if number)
            if total <= LONGEST // timedelta(milliseconds=1):
                return total
    raise SettingError(f"{name!r} must be {ALLOWED}, found {value!r}{_hint(value)}")


def format_duration(milliseconds: int) -> str:
    """A duration as `parse_duration` reads it."""
    return "".join(_parts(milliseconds)) or "0s"


def shown_duration(milliseconds: int) -> str:
    """The duration in its two largest units; milliseconds are left out after seconds."""
    return "".join(_parts(milliseconds // 1_000 * 1_000 or milliseconds)[:2]) or "0s"


def _parts(milliseconds: int) -> list[str]:
    parts, left = [], milliseconds
    for unit, size in MILLISECONDS.items():
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return parts


def _hint(value: object) -> str:
    number = str(value).strip()
    if not isinstance(value, bool) and number.isascii() and number.isdigit():
        return f": a number alone has no unit; did you mean '{number}s' or '{number}m'?"
    if isinstance(value, str) and "M" in value and _WRITTEN.fullmatch(value.strip().lower()):
        return f": M is not a unit, minutes are m; did you mean '{value.strip().lower()}'?"
    return ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, ignoring case; None if none is similar."""
    spelled = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), spelled, 1)
    return spelled[found[0]] if found else None


def meant(name: str, known: Iterable[str], otherwise: str, prefix: str = "") -> str:
    """The question whether the nearest name was meant, or `otherwise` if none is near."""
    found = nearest(name, known)
    return otherwise if found is None else f"did you mean {prefix + found!r}?"


def counted(number: int, noun: str) -> str:
    """How many there are: `1 batch`, `2 batches`, `1,000 rows`."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural}"


def listed(things: Sequence[object], most: int = 5) -> str:
    """Some things by name, and how many more."""
    named = ", ".join(map(str, things[:most]))
    return named if len(things) <= most else f"{named} and {len(things) - most:,} more"


def shown(value: Any) -> str:
    """A dataclass as it would be written: without what is the default."""
    given = sorted(fields(value), key=lambda each: bool(each.kw_only))
    values = ((each, getattr(value, each.name)) for each in given if each.repr)
    return f"{type(value).__name__}({', '.join(f'{each.name}={v!r}' for each, v in values if v != _usual(each))})"


def _usual(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def parameters(taker: type) -> set[str]:
    """Those of its bases, too."""
    made = [vars(each)["__init__"] for each in taker.__mro__ if "__init__" in vars(each)]
    return {name for each in made for name in signature(each).parameters} - {"self", "args", "kwargs"}


def arguments(**instead: str) -> Callable[[Made], Made]:
    """Let a public class or function say of a name that it does not take which one was meant, or where it belongs.

    So it says which one is missing, and which one is no text, flag or list where it has to be; both with what the
    docstring says of it. A class, which is a dataclass, is also shown as it would be written. Of an operator, its
    `__init__` is decorated, which is asked for names alone.

    `instead` says for some names what to do: where they belong, or why they mean nothing here.
    """

    def decorate(made: Made) -> Made:
        called: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]
        name = made.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        whole = signature(called)
        taken = list(whole.parameters.values())
        is_operator = made.__name__ == "__init__"

        @wraps(called)
        def checked(*given: Any, **named: Any) -> Any:
            _check_known(name, taken, given, named, instead)
            _check_places(name, taken, given, named)
            if not is_operator:
                _check_given(name, whole.bind_partial(*given, **named).arguments, taken, made.__doc__ or "")
            return called(*given, **named)

        if isinstance(made, type):
            made.__init__, made.__repr__ = checked, shown  # type: ignore[misc,method-assign,assignment]
            return made
        return checked  # type: ignore[return-value]

    return decorate


def _check_known(
    called: str, taken: list[Parameter], given: tuple[Any, ...], named: Iterable[str], instead: Mapping[str, str]
) -> None:
    own = [each.name for each in taken if each.name != "self" and each.kind is not Parameter.VAR_KEYWORD]
    passed_on = any(each.kind is Parameter.VAR_KEYWORD for each in taken)
    known = own + (sorted(parameters(type(given[0]))) if passed_on else [])
    for name in named:
        if name not in known:
            near = nearest(name, [*known, *instead]) or ""
            hint = instead.get(name) or instead.get(near) or meant(name, known, f"known are {', '.join(own)}")
            raise SettingError(f"{called}() takes no argument {name!r}: {hint}")


def _check_places(called: str, taken: list[Parameter], given: tuple[Any, ...], named: Iterable[str]) -> None:
    places = sum(each.kind is Parameter.POSITIONAL_OR_KEYWORD for each in taken)
    if len(given) > places:
        left = [f"{each.name}=" for each in taken if each.kind is Parameter.KEYWORD_ONLY and each.name not in named]
        hint = f"name it, with one of {', '.join(left)}" if left else "leave it out"
        raise SettingError(f"{called}() does not take {given[places]!r} without a name: {hint}")


def _check_given(called: str, given: Mapping[str, Any], taken: Sequence[Parameter], about: str) -> None:
    own = [each for each in taken if each.name != "self" and each.kind not in _MANY]
    missing = [each.name for each in own if each.default is each.empty and each.name not in given]
    if missing:
        said = "".join(f" {name}: {_first_sentence(name, about)}" for name in missing)
        raise SettingError(f"{called}() needs {' and '.join(f'{name}=' for name in missing)}.{said}")
    for each in own:
        value = given.get(each.name, each.default)
        for kind, (fits, expected) in _KINDS.items():
            if each.annotation in (kind, kind | None) and not fits(value) and value is not each.default:
                said = f"{expected}, found {value!r}. {_first_sentence(each.name, about)}"
                raise SettingError(f"{called}: {each.name} must be {said}".rstrip(". "))


def _first_sentence(name: str, about: str) -> str:
    """The first sentence of what a docstring says of a parameter."""
    found = re.search(rf":param {name}: (.*?)(?:\.\s|\s:param |\.?\s*\Z)", about, re.DOTALL)
    return f"{' '.join(found[1].replace('`', '').split())}." if found else ""


_MANY: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_KINDS: Final[Mapping[Any, tuple[Callable[[Any], bool], str]]] = {
    str: (lambda value: isinstance(value, str), "text"),
    bool: (lambda value: isinstance(value, bool), "True or False"),
    tuple[str, ...]: (lambda value: isinstance(value, str | list | tuple), "a tuple of texts"),
}
"""What an argument that is annotated so has to be; who takes one text for several makes it a tuple."""
