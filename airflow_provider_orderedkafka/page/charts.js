// Small plots over time, drawn as SVG. What they show is in the table of ranges, too.

import { h, svg } from "./html.js";
import { day } from "./words.js";

const WIDTH = 300;
const HEIGHT = 80;
const ROOM = 6;

/** A plot of `points`, each with `at`, `value` and `label`, oldest first. */
export function plot(title, points, format) {
  const known = points.filter((point) => point.value !== null && Number.isFinite(point.value));
  if (known.length < 2) return null;
  const most = Math.max(...known.map((point) => point.value));
  const newest = known.at(-1);
  const words = `${title}: ${format(newest.value)} at last, at most ${format(most)}, in ${known.length} ranges`;
  return h(
    "figure",
    { class: "plot" },
    h("figcaption", {}, h("span", {}, title), h("strong", {}, format(newest.value))),
    h("div", { class: "scale" }, h("span", {}, format(most || 0))),
    drawn(known, most || 1, words),
    h("div", { class: "scale ends" }, h("span", {}, day(known[0].at)), h("span", {}, day(newest.at))),
  );
}

function drawn(points, most, words) {
  const [first, last] = [points[0].at, points.at(-1).at];
  const x = (at) => round(ROOM + ((at - first) / Math.max(last - first, 1)) * (WIDTH - 2 * ROOM));
  const y = (value) => round(HEIGHT - ROOM - (value / most) * (HEIGHT - 2 * ROOM));
  const line = points.map((point, index) => `${index ? "L" : "M"}${x(point.at)} ${y(point.value)}`).join("");
  const floor = HEIGHT - ROOM;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
    svg("path", { class: "rule", d: `M0 ${ROOM}H${WIDTH}M0 ${floor}H${WIDTH}` }),
    svg("path", { class: "area", d: `${line}L${x(last)} ${floor}L${x(first)} ${floor}Z` }),
    svg("path", { class: "line", d: line }),
    // A line of no length with round ends is a dot that stays round, however the plot is stretched.
    points.map((point) =>
      svg("path", { class: "dot", d: `M${x(point.at)} ${y(point.value)}h0` }, svg("title", {}, point.label))),
  );
}

const round = (value) => Math.round(value * 10) / 10;
