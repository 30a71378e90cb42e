"""Suggest a known name for a misspelled one."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, ignoring case; None if none is similar."""
    spelled = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), spelled, 1)
    return spelled[found[0]] if found else None


def meant(name: str, known: Iterable[str], otherwise: str, prefix: str = "") -> str:
    """The question whether the nearest name was meant, or `otherwise` if none is near."""
    found = nearest(name, known)
    return otherwise if found is None else f"did you mean {prefix + found!r}?"
