"""Writes tests/golden anew for the version that is written now: one text of every document, as it is stored.

Run it where a format is changed on purpose, and read what it changed.
"""

import sys
from importlib import import_module
from pathlib import Path

from airflow_provider_orderedkafka.core.codec import VERSION

TESTS = Path(__file__).resolve().parent.parent / "tests"


def main() -> int:
    """Write the texts of this version."""
    sys.path.insert(0, str(TESTS))
    texts = import_module("support.documents").texts()
    folder = TESTS / "golden" / f"v{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
