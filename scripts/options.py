"""Writes the tables of options in the documents anew, from the tables that the parsers read."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE, SINK  # noqa: E402

TABLES = {option.group: table for table in (APPLICATION_SOURCE, APPLICATION_SINK, SINK) for option in table.options}
"""By the groups of options, each of which is a table in the documents; the sink's own has all that `df.write` takes."""

PAGES = sorted(ROOT.glob("docs/*.md"))
MARKED = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def written(text: str) -> str:
    """A page with each table between markers as it has to be."""
    return MARKED.sub(lambda found: f"{found[1]}\n{markdown(found[2])}\n{found[3]}", text)


def markdown(group: str) -> str:
    shown = TABLES[group].of_group(group)
    rows = "".join(f"| `{option.name}` | {option.shown} | {option.help} |\n" for option in shown)
    return "| option | default | value |\n| --- | --- | --- |\n" + rows.replace("|  |", "| |")


def main() -> int:
    """Write the pages where they are not true any more."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := written(text)) != text:
            page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
