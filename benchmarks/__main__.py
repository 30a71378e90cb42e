"""Every benchmark after the other, or those that are named: `make bench`, `make bench ARGS="reading planning"`."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {"__init__", "__main__", "curves", "data", "peers", "processor"}
"""What is no benchmark by itself."""


def main() -> int:
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in PARTS)
    asked = sys.argv[1:] or known
    if unknown := sorted(set(asked) - set(known)):
        print(f"there is no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in asked:
        print(f"== {name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False).returncode
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
