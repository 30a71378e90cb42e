"""A broker's log, and the lines in it that say why the broker ended."""

import re
from pathlib import Path

_REASONS = 6
_LAST_LINES = 6
_REASON = re.compile(r"\b(ERROR|FATAL)\b|^(Caused by: )?[\w.$]+(Exception|Error)\b|^Error: ")


class ServerLog:
    """The file that one broker appends to, over all its starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = 0

    def begin(self) -> None:
        """Remember that a start begins here; earlier lines are ignored."""
        self._began = self.path.stat().st_size if self.path.exists() else 0

    def mentions(self, text: str) -> bool:
        return any(text in line for line in self._lines())

    def excerpt(self) -> str:
        """Return the first errors of this start and its last lines."""
        lines = self._lines()
        errors = [at for at, line in enumerate(lines) if _REASON.search(line)][:_REASONS]
        wanted = sorted({*errors, *range(max(0, len(lines) - _LAST_LINES), len(lines))})
        return "\n".join(lines[at] for at in wanted) or "(it wrote nothing)"

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(self._began)
            return log.read().decode("utf-8", errors="replace").splitlines()
