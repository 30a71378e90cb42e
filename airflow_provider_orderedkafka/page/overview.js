// All loads, one a row.

import { dagPage } from "./airflow.js";
import { ago, h, table } from "./html.js";
import { behind, lastEnded, limit, nextRun, openRanges, progress, remarks, runLink, state } from "./parts.js";
import { count } from "./words.js";

const COLUMNS = [
  { name: "Load", kind: "name", head: true, cell: name },
  { name: "Behind", kind: "unbroken", cell: ({ status }) => status && behind(status) },
  { name: "Next run", cell: ({ status }) => status && nextRun(status) },
  { name: "Open range", cell: ({ status }) => status && open(status) },
  { name: "Last outcome", cell: ({ status }) => status && outcome(status) },
  { name: "Row limit", cell: ({ status }) => status && limit(status) },
];

export const overview = (loads) => h("div", { class: "panel" }, table("All loads", COLUMNS, loads, { class: "cards" }));

const dagLinks = (dags) => dags.map((dag, index) => [index ? ", " : "", h("a", { href: dagPage(dag), "data-leave": true }, dag)]);

function name(load) {
  const dags = load.dags.length ? h("div", { class: "quiet" }, dagLinks(load.dags)) : null;
  const link = h("a", { href: `?load=${encodeURIComponent(load.name)}`, class: "main" }, load.name);
  return [link, dags, load.status ? null : h("div", { class: "quiet" }, without(load))];
}

const without = ({ elsewhere }) =>
  elsewhere ? "its status is kept by a state store backend of your own, which the API does not give" : "has not run yet";

function open(status) {
  const found = openRanges(status);
  if (!found.length) return h("span", { class: "quiet" }, "none");
  const [range] = found.slice(-1);
  const more = found.length > 1 ? h("div", { class: "quiet" }, `and ${count(found.length - 1, "more range")}`) : null;
  const attempt = range.attempts > 1 ? `, attempt ${range.attempts}` : null;
  return [h("div", { class: "main" }, state(range), attempt), progress(range), more];
}

function outcome(status) {
  const range = lastEnded(status);
  if (!range) return h("span", { class: "quiet" }, "none yet");
  const ended = range.ended_at === null ? null : h("div", { class: "quiet" }, ago(range.ended_at), " by ", runLink(range));
  const rows = range.state === "committed" ? count(range.rows_written, "row") : state(range);
  return [h("div", { class: "main" }, rows), ended, remarks(range)];
}
