// All loads, one a row: what failed first, then what is loaded now.

import { dagPage } from "./airflow.js";
import { ago, h, table } from "./html.js";
import { behind, failed, hasLedger, lastSuccess, nextRun, openRanges, output, progress, remarks, runLink, state } from "./parts.js";
import { count, number } from "./words.js";

const COLUMNS = [
  { name: "Load", kind: "name", head: true, cell: name },
  { name: "Behind", kind: "unbroken", cell: ({ status }) => status && hasLedger(status) ? behind(status) : null },
  { name: "Next run", cell: ({ status }) => status && hasLedger(status) ? nextRun(status) : null },
  { name: "Open range", cell: ({ status }) => status && open(status) },
  { name: "Last success", cell: ({ status }) => status && success(status) },
];

const rank = ({ status }) => (!status ? 3 : failed(status) ? 0 : openRanges(status).length ? 1 : 2);

export const overview = (loads) =>
  h("div", { class: "panel" }, table("All loads", COLUMNS, loads.toSorted((one, other) => rank(one) - rank(other)), { class: "cards" }));

/** How many loads there are, how many of them failed, and how many are loading. */
export function summary(loads) {
  const of = (wanted) => loads.filter((load) => rank(load) === wanted).length;
  const told = [[of(0), "failed"], [of(1), "with an open range"], [of(3), "not run yet"]].filter(([many]) => many);
  return [count(loads.length, "load"), ...told.map(([many, what]) => `${number(many)} ${what}`)].join(", ");
}

/** Show the rows that have the words, of whatever is said in them. */
export function filtered(rows, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
}

const dagLinks = (dags) => dags.map((dag, index) => [index ? ", " : "", h("a", { href: dagPage(dag), "data-leave": true }, dag)]);

function name(load) {
  const dags = load.dags.length ? h("div", { class: "quiet" }, dagLinks(load.dags)) : null;
  const link = h("a", { href: `?load=${encodeURIComponent(load.name)}`, class: "main" }, load.name);
  const to = load.status && output(load.status) ? h("div", { class: "quiet" }, "to ", output(load.status)) : null;
  return [link, to, dags, load.status ? null : h("div", { class: "quiet" }, without(load))];
}

const without = ({ elsewhere }) =>
  elsewhere ? "its status is kept by a state store backend of your own, which the API does not give" : "has not run yet";

function open(status) {
  const found = openRanges(status);
  if (!found.length) return h("span", { class: "quiet" }, "none");
  const [range] = found.slice(-1);
  const more = found.length > 1 ? h("div", { class: "quiet" }, `and ${count(found.length - 1, "more range")}`) : null;
  const attempt = range.attempts > 1 ? `, attempt ${range.attempts}` : null;
  const why = range.error ? h("div", { class: "quiet error" }, range.error) : null;
  return [h("div", { class: "main" }, state(range), attempt), progress(range), why, more];
}

function success(status) {
  const range = lastSuccess(status);
  if (!range) return h("span", { class: "quiet" }, "none yet");
  const ended = range.ended_at === null ? null : h("div", {}, ago(range.ended_at), h("span", { class: "quiet" }, " by ", runLink(range)));
  return [ended, h("div", { class: "quiet" }, count(range.counts.rows_emitted, "row")), remarks(range), spent(status)];
}

const spent = ({ rows, row_limit: most }) =>
  most === null ? null : h("div", { class: "quiet" }, `${number(rows)} of ${count(most, "row")} of its limit`);
