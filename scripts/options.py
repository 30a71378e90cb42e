"""Writes the tables of options in the documents anew, from the tables that the parsers read."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from airflow_provider_orderedkafka.spark.connector.option_parsing import OptionTable  # noqa: E402 - found by the line above
from airflow_provider_orderedkafka.spark.connector.option_tables import SINK, SOURCE  # noqa: E402 - the same

PAGES = {"docs/reading.md": SOURCE, "docs/writing.md": SINK}
_MARKED = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def written(page: str, table: OptionTable) -> str:
    """The page with each table between markers as it has to be."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return _MARKED.sub(lambda found: f"{found[1]}\n{table.markdown(found[2])}\n{found[3]}", text)


def main() -> int:
    """Write the pages where they are not true any more."""
    for page, table in PAGES.items():
        (ROOT / page).write_text(written(page, table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
