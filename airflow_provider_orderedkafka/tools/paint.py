"""Colours, where a person looks at a terminal; nowhere else, and not where NO_COLOR is set."""

import os
import sys
from typing import Final, TextIO

RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
BLUE: Final = "34"


def painted(text: str, colour: str | None, out: TextIO | None = None) -> str:
    """The text in this colour, if it goes to a terminal."""
    out = out or sys.stdout
    plain = colour is None or not out.isatty() or bool(os.environ.get("NO_COLOR"))
    return text if plain else f"\x1b[{colour}m{text}\x1b[0m"
