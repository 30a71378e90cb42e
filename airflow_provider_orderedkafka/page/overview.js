// All loads, one a row: what failed first, then what is loaded now.

import { dagPage, runIdOf, runPage, taskPage } from "./airflow.js";
import { ago, h, table } from "./html.js";
import { ELSEWHERE, behind, failed, hasLedger, lastSuccess, nextRun, openRange, openRanges, output, progress, remarks, resting, runLink, state, stopped } from "./parts.js";
import { count, number } from "./words.js";

const COLUMNS = [
  { name: "Load", kind: "name", head: true, cell: name },
  { name: "State", cell: stateOf },
  { name: "Behind", kind: "unbroken", cell: ({ status }) => status && hasLedger(status) ? behind(status) : null },
  { name: "Next run", cell: ({ status }) => status && hasLedger(status) ? nextRun(status) : null },
  { name: "Open range", cell: ({ status }) => status && open(status) },
  { name: "Last success", cell: ({ status }) => status && success(status) },
];

const neverRan = ({ status, elsewhere, waiting }) => !status && !elsewhere && !waiting.length;
const rank = ({ status, waiting }) => (status && failed(status) ? 0 : status && openRanges(status).length ? 1 : waiting.length ? 2 : 3);

export function overview(loads) {
  const [ran, never] = [loads.filter((load) => !neverRan(load)), loads.filter(neverRan)];
  const rows = ran.toSorted((one, other) => rank(one) - rank(other));
  return [rows.length ? h("div", { class: "panel" }, table("All loads", COLUMNS, rows, { class: "cards" })) : null, folded(never, !rows.length)];
}

function folded(loads, open) {
  if (!loads.length) return null;
  const have = loads.length === 1 ? "load has" : "loads have";
  return h("details", { class: "quiet", open }, h("summary", {}, `${number(loads.length)} ${have} not run yet`),
    h("ul", { class: "steps" }, loads.map((load) => h("li", {}, linkTo(load), load.dags.length ? [" in ", dagLinks(load.dags)] : null))));
}

/** How many loads there are, how many of them failed, are loading, and wait. */
export function summary(loads) {
  const of = (wanted) => loads.filter((load) => rank(load) === wanted).length;
  const told = [[of(0), "failed"], [of(1), "with an open range"], [of(2), "waiting"], [loads.filter(neverRan).length, "not run yet"]].filter(([many]) => many);
  return [count(loads.length, "load"), ...told.map(([many, what]) => `${number(many)} ${what}`)].join(", ");
}

/** Show the rows that have the words, of whatever is said in them; what is folded, too, if it is found. */
export function filtered(rows, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
  for (const fold of new Set(rows.map((row) => row.closest("details")).filter(Boolean))) {
    const found = [...fold.querySelectorAll("li")].some((row) => !row.hidden);
    fold.hidden = !found;
    if (wanted.length && found) fold.open = true;
  }
}

const dagLinks = (dags) => dags.map((dag, index) => [index ? ", " : "", h("a", { href: dagPage(dag), "data-leave": true }, dag)]);

function name(load) {
  const dags = load.dags.length ? h("div", { class: "quiet" }, dagLinks(load.dags)) : null;
  const to = load.status && output(load.status) ? h("div", { class: "quiet" }, "to ", output(load.status)) : null;
  return [linkTo(load), to, dags, load.elsewhere ? h("div", { class: "quiet" }, ELSEWHERE) : null];
}

const linkTo = (load) => h("a", { href: `?load=${encodeURIComponent(load.name)}`, class: "main" }, load.name);

/** What the load does now: its open range says, or a run that waits, or what there is to load. */
function stateOf({ status, waiting, elsewhere }) {
  const range = status ? openRange(status) : undefined;
  if (elsewhere && !waiting.length) return h("span", { class: "quiet" }, "unknown");
  const now = range ?? { state: stopped(status) ? "failed" : waiting.length ? "waiting" : resting(status) };
  const attempt = range?.attempts > 1 ? `, attempt ${range.attempts}` : null;
  const runs = [...(range ? [[range.run, runPage(range.run)]] : []), ...waiting.map(({ run, task }) => [run, taskPage(run, task)])];
  const links = runs.map(([run, href]) => h("div", { class: "quiet" }, h("a", { href, title: runIdOf(run), "data-leave": true }, "its run")));
  return [h("div", {}, state(now), attempt), links];
}

function open(status) {
  const found = openRanges(status);
  const stop = stopped(status);
  if (stop) return h("div", { class: "quiet error" }, stop.error);
  if (!found.length) return h("span", { class: "quiet" }, "none");
  const range = openRange(status);
  const more = found.length > 1 ? h("div", { class: "quiet" }, `and ${count(found.length - 1, "more range")}`) : null;
  const why = range.error ? h("div", { class: "quiet error" }, range.error) : null;
  return [progress(range), why, more];
}

function success(status) {
  const range = lastSuccess(status);
  if (!range) return h("span", { class: "quiet" }, "none yet");
  const ended = range.ended_at === null ? null : h("div", {}, ago(range.ended_at), h("span", { class: "quiet" }, " by ", runLink(range)));
  return [ended, h("div", { class: "quiet" }, count(range.counts.rows_emitted, "row")), remarks(range), spent(status)];
}

const spent = ({ rows, row_limit: most }) =>
  most === null ? null : h("div", { class: "quiet" }, `${number(rows)} of ${count(most, "row")} of its limit`);
