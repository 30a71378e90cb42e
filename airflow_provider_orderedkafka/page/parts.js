// What the overview and the page of a load both say.

import { dagOf, runIdOf, runPage, taskPage } from "./airflow.js";
import { age, ago, bar, h, until } from "./html.js";
import { count, moment, number, percent, size, span } from "./words.js";

const OPEN = new Set(["planned", "loading", "failed", "loaded"]);
const STATES = {
  planned: "planned",
  loading: "loading",
  failed: "failed",
  loaded: "loaded, not committed",
  committed: "committed",
  abandoned: "abandoned",
  untold: "ended, outcome unknown",
  waiting: "waiting",
  reached: "row limit reached",
  behind: "behind",
  idle: "idle",
};

/** Why there is no status of a load that has one. */
export const ELSEWHERE = "A state store backend of your own keeps its status, and Airflow's API does not show that: the command orderedkafka loads does.";

export const isOpen = (range) => OPEN.has(range.state);
export const openRanges = (status) => status.ranges.filter(isOpen);
export const lastSuccess = (status) => status.ranges.findLast((range) => range.state === "committed");

/** Why the newest run ended before it had a range; an open range says itself how it stands. */
export const stopped = (status) => (status && !openRanges(status).length ? status.stop : null);
export const failed = (status) => stopped(status) !== null || openRanges(status).some((range) => range.state === "failed");

/** The one open range to look at: one that failed, or the newest. */
export const openRange = (status) => openRanges(status).findLast((range) => range.state === "failed") ?? openRanges(status).at(-1);

/** How a load without an open range and without a run that waits stands, as `orderedkafka loads` says it. */
export const resting = (status) => (isReached(status) ? "reached" : status?.lag?.offsets ? "behind" : "idle");

const isReached = (status) => status !== null && status.row_limit !== null && status.rows >= status.row_limit;

/** Whether a range is open that the next run comes after. */
const follows = (status) => openRanges(status).some(({ kind }) => kind === "incremental");

/** Whether what Kafka had at the last look decides when the next run starts. */
export const looked = (status) => (status.lag?.waiting ?? null) !== null && !isReached(status) && !follows(status);

export const isOverdue = ({ lag }) => (lag?.due ?? null) !== null && lag.due <= Date.now();

/** Whether it follows a ledger: one in intervals and a replay have no lag, no next run and no revision. */
export const hasLedger = (status) => status.lag !== null || status.revision !== null || !status.ranges.length
  || status.ranges.some((range) => range.kind === "incremental");

/** Where a load writes to: "topic:orders-ordered" as "topic orders-ordered". */
export const output = ({ output: place }) => (place ? place.replace(":", " ") : null);

export const state = (range) => h("span", { class: `state ${range.state}` }, STATES[range.state] ?? range.state);

/** The runs that wait for more to load, each with a link to its task. */
export const waits = (waiting) => waiting.map(({ run, task }) =>
  h("div", { class: "links" }, h("a", { href: taskPage(run, task), "data-leave": true }, runName(run)), h("div", { class: "quiet" }, dagOf(run))));

/** What is remarkable of a range, each with its number; nothing of most ranges. */
export function remarks({ counts }) {
  const { changes } = counts;
  const found = [
    [counts.late, "late", ""],
    [counts.dead_letters, counts.dead_letters === 1 ? "dead letter" : "dead letters", "bad"],
    [counts.may_be_doubled, "possibly doubled", "bad"],
    [counts.may_be_out_of_order, "possibly out of order", "bad"],
    [counts.lost, "lost to retention", "bad"],
    [counts.replayed, "left out, already in the output", ""],
    [changes.inserted, "inserted", ""],
    [changes.updated, "updated", ""],
    [changes.deleted, "deleted", ""],
    [changes.unchanged, "unchanged", ""],
    [changes.moved, "moved to another partition", ""],
    [changes.unknown, "with unknown changes", ""],
    [counts.columns_added.length, `${columns(counts.columns_added)} added: ${counts.columns_added.join(", ")}`, ""],
    [counts.columns_left_out.length, `${columns(counts.columns_left_out)} left out: ${counts.columns_left_out.join(", ")}`, "bad"],
  ];
  const told = found.filter(([many]) => many).map(([many, what, kind]) => h("li", { class: kind }, number(many), ` ${what}`));
  return told.length ? h("ul", { class: "remarks" }, told) : null;
}

const columns = ({ length }) => (length === 1 ? "column" : "columns");

/** What a range cost, as far as that is known. */
export function cost({ counts: { core_ms: core, bytes_written: bytes, files_written: files } }) {
  const told = [
    core === null ? null : count(Number((core / 1_000).toFixed(core < 10_000 ? 1 : 0)), "core second"),
    bytes === null ? null : `${size(bytes)} written`,
    files ? count(files, "file") : null,
  ].filter(Boolean);
  return told.length ? h("div", { class: "quiet" }, told.map((part, index) => [index ? ", " : "", h("span", { class: "unbroken" }, part)])) : null;
}

/** What was found when a range's output was read again; nothing where nobody did. */
export function audited({ audit }) {
  if (!audit) return null;
  const { at, verdict, said, ...counts } = audit;
  const told = Object.entries(counts).filter(([, count]) => count).map(([what, count]) => `${number(count)} ${what.replaceAll("_", " ")}`);
  const words = { clean: "audited: clean", found: `audit found ${told.join(", ")}`, unknown: `audited: ${said || "unknown"}` };
  return h("div", { class: verdict === "found" ? "quiet error" : "quiet", title: moment(at) }, words[verdict],
    said && verdict !== "unknown" ? h("div", {}, said) : null);
}

export const duration = (range) =>
  range.begun_at !== null && range.ended_at !== null ? Math.max(range.ended_at - range.begun_at, 0) : null;

/** The run, whose ID ends in a moment that is not broken where there is room for it. */
export function runLink(range) {
  return h("a", { href: runPage(range.run), "data-leave": true }, runName(range.run));
}

function runName(run) {
  const [kind, ...rest] = runIdOf(run).split(/(?<=__)/);
  return [kind, h("wbr"), h("span", { class: "whole" }, rest)];
}

export function links(range) {
  const log = range.task && h("a", { href: taskPage(range.run, range.task), "data-leave": true }, "log");
  return h("div", { class: "links" }, runLink(range), log ? [" · ", log] : null, h("div", { class: "quiet" }, dagOf(range.run)));
}

/** How far the load is behind, in time and in offsets as they were seen: all that is older is loaded. */
export function behind(status) {
  const lag = status.lag;
  if (!lag || (lag.at_least && !lag.offsets)) return h("span", { class: "quiet" }, loadedTo(status) ?? "not looked at yet");
  const offsets = [lag.at_least ? "at least " : "", count(lag.offsets, "offset")];
  const timed = lag.loaded_to !== null && lag.offsets > 0;
  return [
    h("div", { class: "main" }, timed ? age(lag.loaded_to) : lag.offsets ? offsets : "all is loaded"),
    timed ? h("div", { class: "quiet" }, offsets) : null,
    h("div", { class: "quiet" }, "seen ", ago(lag.at)),
  ];
}

/** Without a look, where the last committed range ended. */
function loadedTo({ ranges }) {
  const range = ranges.findLast(({ state: found, kind }) => found === "committed" && kind === "incremental");
  return range && range.end !== null ? ["loaded up to ", ago(range.end)] : null;
}

/** What starts the next run, and what is missing to it. */
export function nextRun(status) {
  const lag = status.lag;
  if (isReached(status)) return h("strong", {}, "none: the row limit is reached");
  if (follows(status)) return h("span", { class: "quiet" }, "after the open range");
  if (!lag) return h("span", { class: "quiet" }, "not known yet");
  if (lag.waiting === null) return h("span", { class: "quiet" }, "known after the next look at Kafka");
  const found = [enough(lag), delay(lag)].filter(Boolean);
  return found.length ? found : h("div", { class: "quiet" }, lag.reason);
}

function enough({ waiting, enough: asked }) {
  if (asked === null) return null;
  const there = waiting ? `${count(waiting, "offset")} ${waiting === 1 ? "is" : "are"} there` : "nothing to load yet";
  const words = waiting < asked && asked > 1 ? `${number(waiting)} of ${number(asked)} offsets` : there;
  return [h("div", { class: "main" }, words), bar(waiting / asked, words)];
}

function delay({ due, waiting, enough: asked }) {
  if (due === null || (asked !== null && waiting >= asked)) return null;
  const or = asked === null ? "" : "or ";
  const over = waiting ? "now: the delay ran out" : "at the next record: the delay ran out";
  const ahead = ["when the delay runs out: ", until(due), waiting ? null : ", if there is anything to load"];
  return h("div", { class: "quiet" }, or, due > Date.now() ? ahead : over);
}

/** How far an open range is. */
export function progress(range) {
  const found = range.progress;
  if (!found) return h("div", { class: "quiet" }, count(range.offsets, "offset"), range.state === "loading" ? ", no progress reported yet" : null);
  const share = found.offsets_planned ? found.offsets_done / found.offsets_planned : 1;
  const words = [`${percent(share)} of ${count(found.offsets_planned, "offset")} read`, `batch ${number(found.batch)}${of(found)}`];
  if (range.state === "loading") words.push(...pace(found));
  return [h("div", { class: "quiet" }, words.join(", ")), bar(share, words[0], range.state)];
}

/** What is written is known when the tasks of a batch are done: they may have read all long before. */
function pace(found) {
  const words = [`${count(found.rows_read, "row")} read`];
  if (found.running === null) words.push(`${number(found.rows_emitted)} written`);
  else if (found.tasks) words.push(`${number(found.tasks_done ?? 0)} of ${count(found.tasks, "task")} done`);
  if (found.rows_per_second) words.push(`${count(found.rows_per_second, "row")} a second`);
  if (found.seconds_left) words.push(`about ${span(found.seconds_left * 1_000)} left`);
  return words;
}

const of = ({ batches, about }) => ` of ${about ? "about " : ""}${number(batches)}`;

export function limit(status) {
  if (status.row_limit === null) return h("span", { class: "quiet" }, "no limit");
  const share = status.rows / status.row_limit;
  const words = `${number(status.rows)} of ${number(status.row_limit)} rows`;
  return [h("div", {}, words), bar(share, `${percent(share)} of the row limit`, share >= 1 ? "failed" : "")];
}
