"""Which known name was probably meant by one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever its case; None where none is."""
    spelled = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), spelled, 1)
    return spelled[found[0]] if found else None


def meant(name: str, known: Iterable[str], otherwise: str, prefix: str = "") -> str:
    """Ask whether the nearest name was meant; `otherwise`, where none is near, is said instead."""
    found = nearest(name, known)
    return otherwise if found is None else f"did you mean {prefix + found!r}?"
