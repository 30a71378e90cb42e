"""Writes the tables of modules in ARCHITECTURE.md anew, from the first line of each module's docstring."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "airflow_provider_orderedkafka"
BEGIN, END = "<!-- modules -->\n", "<!-- end of modules -->\n"

# In the order in which a reader meets them; what is not named here is the Airflow side.
PARTS = {
    "core": "Pure: positions, cuts, pacing, limits, documents. No I/O and no clock",
    "kafka": "What talks to Kafka",
    "spark": "What runs inside Spark: source, sink, application",
    "": "The Airflow side, and what every part shares",
    "embedded": "A real broker on this machine",
    "doctor": "`orderedkafka doctor`",
    "demo": "`orderedkafka demo`",
}


def tables() -> str:
    """One table for each part, one line for each module that is more than its docstring."""
    return "\n".join(
        f"### {title}\n\n| module | what |\n| --- | --- |\n" + "".join(map(_line, _modules(part)))
        for part, title in PARTS.items()
    )


def _modules(part: str) -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if _part(path) == part and len(_tree(path).body) > 1]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _part(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0]
    return name if name in PARTS else ""


def _line(path: Path) -> str:
    words = (ast.get_docstring(_tree(path)) or "").splitlines()[0]
    return f"| `{path.relative_to(PACKAGE)}` | {words} |\n"


def main() -> int:
    """Write the page where it is not true any more."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
