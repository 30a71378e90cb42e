"""For a person at a desk: commands, doctor, a broker."""

import os
import sys
from typing import Final, TextIO

RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
BLUE: Final = "34"


def painted(text: str, colour: str | None, out: TextIO | None = None) -> str:
    """The text in this colour where a person looks at a terminal, unless NO_COLOR is set."""
    out = out or sys.stdout
    plain = colour is None or not out.isatty() or bool(os.environ.get("NO_COLOR"))
    return text if plain else f"\x1b[{colour}m{text}\x1b[0m"
