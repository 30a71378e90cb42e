"""Draw the curves of docs/scale.md from what the benchmarks found, which `benchmarks/scale.json` keeps.

    python -m benchmarks.curves

One colour for each line, which is read on a light page and on a dark one; nothing is fetched by the drawing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "benchmarks" / "scale.json"
DOCS = ROOT / "docs"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 56, 150, 16, 40
GREY = "#7a828e"
COLOURS = ("#0f9d8a", "#d9822b", "#8270e0", "#c2497f")
STEPS = 4

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines by their names, in one picture whose axes begin at 0 and end at `right` and `top`."""

    across: str
    up: str
    right: float
    top: float
    lines: dict[str, Points]

    def svg(self) -> str:
        """The picture."""
        body = [*self._grid(), *(part for number in range(len(self.lines)) for part in self._line(number))]
        title = escape(f"{self.up}, over {self.across}")
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        head += f'font-family="sans-serif" font-size="12" fill="{GREY}"><title>{title}</title>'
        return "\n".join([head, *body, "</svg>", ""])

    def _place(self, across: float, up: float) -> tuple[float, float]:
        x = LEFT + across / self.right * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(HEIGHT - BOTTOM - up / self.top * (HEIGHT - TOP - BOTTOM), 1)

    def _grid(self) -> list[str]:
        found = []
        for step in range(STEPS + 1):
            across, up = self.right * step / STEPS, self.top * step / STEPS
            (x, below), (left, y) = self._place(across, 0), self._place(0, up)
            end = WIDTH - RIGHT
            found.append(f'<path d="M{left} {y}H{end}" stroke="{GREY}" stroke-opacity=".3"/>')
            found.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{up:,g}</text>')
            found.append(f'<text x="{x}" y="{below + 16}" text-anchor="middle">{across:,g}</text>')
        found.append(f'<text x="{LEFT}" y="{HEIGHT - 4}">{escape(self.across)}</text>')
        return [*found, f'<text x="{LEFT + 4}" y="{TOP - 4}">{escape(self.up)}</text>']

    def _line(self, number: int) -> list[str]:
        name, points = list(self.lines.items())[number]
        colour, places = COLOURS[number], [self._place(*point) for point in points]
        path = "M" + "L".join(f"{x} {y}" for x, y in places)
        end = WIDTH - RIGHT + 8
        y = self._labels()[number]
        return [
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{end}" y="{y}" fill="{colour}">{escape(name)}</text>',
        ]

    def _labels(self) -> list[float]:
        """The height of each line's name: at its end, but no two closer than a line of text."""
        wanted = [self._place(*points[-1])[1] + 4 for points in self.lines.values()]
        order = sorted(range(len(wanted)), key=wanted.__getitem__)
        for above, below in pairwise(order):
            wanted[below] = max(wanted[below], wanted[above] + 14)
        return wanted


def charts(kept: dict[str, Any]) -> dict[str, Chart]:
    """The pictures by the names of their files."""
    many = sorted((int(number), found) for number, found in kept["many partitions"].items())
    planning = {
        "planning, in seconds": [(number, found["first batch"]) for number, found in many],
        "all other steps": [(number, found["all other steps"]) for number, found in many],
    }
    memory = {"the process": [(number, found["MiB"]) for number, found in many]}
    most = many[-1][0]
    samples = kept["a copy, by the direct lane"]["samples"]
    kinds = [name for name in samples[0] if name not in ("seconds", "batches")]
    copied = {kind: [(each["seconds"], each[kind]) for each in samples] for kind in kinds}
    return {
        "scale-planning.svg": Chart("partitions of 100,000 offsets", "seconds of the processor", most, 10, planning),
        "scale-memory.svg": Chart("partitions of 100,000 offsets", "MiB", most, 1_024, memory),
        "scale-copy.svg": Chart("seconds of a copy of 50 million records", "MiB", 440, 1_000, copied),
    }


def main() -> None:
    for name, chart in charts(json.loads(KEPT.read_text())).items():
        (DOCS / name).write_text(chart.svg())
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
