// Elements from values. Text is always text: nothing that a load or a topic is called becomes HTML.

import { moment, relative, span } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const h = (name, attributes = {}, ...children) => make(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  make(document.createElementNS(SVG, name), attributes, children);

/** A moment as the time since then, which stays true; the moment itself when pointed at. */
export const ago = (at) =>
  h("time", { datetime: new Date(at).toISOString(), title: moment(at), "data-at": at }, relative(at));

/** How long ago a moment was, as a duration that grows. */
export const age = (at) =>
  h("time", { datetime: new Date(at).toISOString(), title: moment(at), "data-since": at }, span(Date.now() - at));

/** How long it is until a moment, which counts down; "now" once it is there. */
export const until = (at) =>
  h("time", { datetime: new Date(at).toISOString(), title: moment(at), "data-until": at }, ahead(at));

const ahead = (at) => relative(Math.max(at, Date.now()));

export function keepTimesTrue() {
  for (const time of document.querySelectorAll("time[data-at]")) time.textContent = relative(Number(time.dataset.at));
  for (const time of document.querySelectorAll("time[data-since]")) time.textContent = span(Date.now() - Number(time.dataset.since));
  for (const time of document.querySelectorAll("time[data-until]")) time.textContent = ahead(Number(time.dataset.until));
}

/** A table whose rows become cards on a narrow screen; its roles are said, as such rows would lose them. */
export function table(caption, columns, rows, attributes = {}) {
  const head = columns.map(({ name, kind }) => h("th", { scope: "col", role: "columnheader", class: kind }, name));
  const cell = ({ name, kind, cell: of, head: heading }, row) =>
    heading
      ? h("th", { scope: "row", role: "rowheader", class: kind, "data-name": name }, of(row))
      : h("td", { role: "cell", class: kind, "data-name": name }, of(row));
  return h(
    "table",
    { role: "table", ...attributes },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, rows.map((row) =>
      h("tr", { role: "row", class: row.marked ? "marked" : null }, columns.map((column) => cell(column, row))))),
  );
}

/** A bar that is filled to a share, with words for those who do not see it. */
export function bar(share, label, kind = "") {
  const filled = Math.max(0, Math.min(share, 1));
  return svg(
    "svg",
    { class: `bar ${kind}`, viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "track", width: 100, height: 1 }),
    svg("rect", { class: "fill", width: filled * 100, height: 1 }),
  );
}

/** Replace what an element has, only if what is shown has changed; focus and scroll positions stay. */
export function show(element, key, make) {
  const text = JSON.stringify(key);
  if (element.dataset.shown === text) return;
  element.dataset.shown = text;
  const held = element.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = [...element.querySelectorAll(".scroll")].map((each) => each.scrollTop);
  element.replaceChildren(...[make()].flat().filter(Boolean));
  element.querySelectorAll(".scroll").forEach((each, index) => each.scrollTo({ top: scrolled[index] ?? 0 }));
  if (held) [...element.querySelectorAll("a, [tabindex]")].find((each) => nameOf(each) === held)?.focus({ preventScroll: true });
}

const nameOf = (element) => element.getAttribute("href") ?? element.getAttribute("aria-label");
