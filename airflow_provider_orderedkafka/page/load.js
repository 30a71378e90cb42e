// One load: where it stands, its ranges, how they went over time, its partitions.

import { taskPage } from "./airflow.js";
import { plot } from "./charts.js";
import { ago, bar, h, table } from "./html.js";
import { audited, behind, cost, duration, hasLedger, isOpen, isOverdue, limit, links, looked, nextRun, openRanges, progress, remarks, state, stopped, waits } from "./parts.js";
import { count, day, moment, number, percent, short, span } from "./words.js";

/** The sections of a load's page, each with what it shows, so that only what changes is drawn anew. */
export function sections({ status, waiting, tasks, run }) {
  const open = openRanges(status);
  return [
    ["stands", [status, isOverdue(status)], () => stands(status)],
    ["open", [open, waiting, tasks, status.stop], () => opened(status, open, waiting, tasks)],
    ["plots", status.ranges.filter((range) => !isOpen(range)), () => plots(status)],
    ["ranges", [status.ranges, run], () => ranges(status, run)],
    ["moves", status.moves, () => moved(status.moves)],
    ["partitions", status.lag?.partitions, () => partitions(status.lag)],
  ];
}

const section = (title, ...children) => h("section", {}, h("h2", {}, title), children);

function stands(status) {
  if (!hasLedger(status)) return null;
  const limited = status.row_limit === null ? [] : [["Row limit", limit(status)]];
  const facts = [
    ["Behind", behind(status)],
    ["Next run", nextRun(status)],
    ...limited,
    ["Loaded so far", [h("div", { class: "main" }, count(status.rows, "row")), revision(status)]],
  ];
  const tiles = facts.map(([name, value]) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value)));
  const reason = looked(status) && status.lag.reason ? h("p", { class: "quiet" }, "Last look, ", ago(status.lag.at), ": ", status.lag.reason, ".") : null;
  return [h("dl", { class: "tiles" }, tiles), reason];
}

const revision = ({ revision: at }) => (at === null ? null : h("div", { class: "quiet" }, `ledger revision ${number(at)}`));

function opened(status, open, waiting, tasks) {
  const ranges = open.toReversed().map((range) => one(status, range, tasks[range.id] ?? []));
  const stop = stopped(status);
  const none = open.length || waiting.length || stop ? null : h("p", { class: "quiet" }, "None. No run is loading or waiting.");
  const more = waiting.length ? h("div", { class: "panel open" }, h("p", { class: "main" }, state({ state: "waiting" })), waits(waiting)) : null;
  return section(open.length > 1 ? "Open ranges" : "Open range", none, stop ? withoutRange(stop) : null, ranges, more);
}

/** Why a run has no range: its message has the way out. */
function withoutRange(stop) {
  const task = h("a", { href: taskPage(stop.run, stop.task), "data-leave": true }, "the task");
  return h("div", { class: "panel open" },
    h("p", { class: "main" }, state({ state: "failed" }), " · ", ago(stop.at)),
    h("pre", { class: "error" }, stop.error),
    h("p", { class: "quiet todo" }, "What to do: follow the message, then clear ", task, "."));
}

function one(status, range, tasks) {
  return h(
    "div",
    { class: "panel open" },
    h("p", { class: "main" }, state(range), range.attempts > 1 ? `, attempt ${range.attempts}` : null, " · ", h("code", {}, range.id)),
    h("p", { class: "quiet" }, range.reason),
    range.progress || range.state === "loading" ? progress(range) : null,
    range.error ? h("pre", { class: "error" }, range.error) : null,
    range.state === "failed" ? whatToDo(status, range, tasks) : null,
    remarks(range),
    tasks.length ? steps(range, tasks) : links(range),
    range.written.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Batches" }, batches(range)) : null,
  );
}

/** How a load that failed goes on: what is written stays, and is left out when its range is loaded again. */
function whatToDo(status, range, tasks) {
  const again = tasks.some((task) => task.name === "load" && task.state === "up_for_retry");
  const task = range.task ? h("a", { href: taskPage(range.run, range.task), "data-leave": true }, "the task") : "the task";
  const reason = `orderedkafka ledger abandon ${status.load} --reason "..."`;
  const give = range.kind === "incremental" ? [" To abandon the range instead: ", h("code", {}, reason), "."] : null;
  return h("p", { class: "quiet todo" }, "What to do: ",
    again ? "nothing yet, Airflow tries again by itself. If that fails, too, " : null,
    range.error ? "follow the message" : "follow the log of the task", ", then clear ", task, ". The load continues where it stopped, and leaves out rows that are written already.", give);
}

const ORDER = ["wait", "check", "resolve", "load", "commit", "audit"];

const inOrder = (tasks) => tasks.toSorted((one, other) => ORDER.indexOf(one.name) - ORDER.indexOf(other.name));

const steps = (range, tasks) =>
  h("ol", { class: "steps" }, inOrder(tasks).map((task) =>
    h("li", {}, h("a", { href: taskPage(range.run, task.id), "data-leave": true }, task.name),
      h("span", { class: task.state === "failed" ? "state failed" : "quiet" }, ` ${task.state?.replaceAll("_", " ") ?? "to come"}${task.attempt > 1 ? `, try ${task.attempt}` : ""}`))));

/** Who moved the ledger, and why. */
function moved(rows) {
  if (!rows.length) return null;
  const columns = [
    { name: "When", kind: "unbroken", head: true, cell: (row) => h("span", { title: moment(row.at) }, day(row.at)) },
    { name: "What", cell: (row) => row.kind },
    { name: "By", cell: (row) => row.by },
    { name: "Why", kind: "why", cell: (row) => row.reason },
  ];
  return section("Moves of the ledger", h("div", { class: "panel" }, table("Moves of the ledger", columns, rows.toReversed(), { class: "cards" })));
}

const known = (value, words) => (value === null ? "–" : words(value));

function batches(range) {
  const rows = range.written.map((batch, index) => {
    const before = range.written[index - 1];
    const begun = before?.at ?? range.begun_at;
    const alone = before || batch.batch === 1; // or else it is not known what the sums were before it
    const less = (name) => (alone ? batch[name] - (before?.[name] ?? 0) : null);
    const took = alone ? batch.at - begun : null;
    return { ...batch, rows: less("rows_read"), offsets: less("offsets_done"), lateHere: less("late"), took };
  });
  return table(
    "Batches of the open range, the newest first",
    [
      { name: "Batch", head: true, cell: (row) => number(row.batch) },
      { name: "Written", cell: (row) => ago(row.at) },
      { name: "Offsets", kind: "number spare", cell: (row) => known(row.offsets, number) },
      { name: "Rows", kind: "number", cell: (row) => known(row.rows, number) },
      { name: "Late", kind: "number", cell: (row) => known(row.lateHere, number) },
      { name: "Took", kind: "number", cell: (row) => known(row.took, span) },
    ],
    rows.reverse(),
  );
}

function plots(status) {
  const ended = status.ranges.filter((range) => range.state === "committed");
  const points = (value, words) => ended.map((range) => {
    const found = value(range);
    return { at: range.planned_at, value: found, label: found === null ? "" : `${moment(range.planned_at)}: ${words(found)}` };
  });
  const speed = (range) => (duration(range) ? range.counts.rows_read / (duration(range) / 1_000) : null);
  const late = ({ counts }) => (counts.rows_read ? counts.late / counts.rows_read : null);
  const drawn = [
    plot("Lag in offsets", points((range) => range.lag, number), short),
    plot("Lag in time", points(timeLag, span), span),
    plot("Rows a second", points(speed, short), short),
    plot("Late rows", points(late, percent), percent),
  ].filter(Boolean);
  if (!drawn.length) return section("Over time", h("p", { class: "quiet" }, "Plots appear after two committed ranges."));
  return section("Over time", h("div", { class: "plots" }, drawn));
}

/** How old the oldest of a range could be when it was planned; what a person or a schedule asked for is no lag. */
const timeLag = (range) => (range.begin === null || range.kind !== "incremental" ? null : Math.max(range.planned_at - range.begin, 0));

function ranges(status, run) {
  if (!status.ranges.length) return section("Ranges", h("p", { class: "quiet" }, "No range yet."));
  const rows = status.ranges.toReversed().map((range) => ({ ...range, marked: run !== null && range.run === run }));
  const columns = [
    { name: "Planned", kind: "unbroken", head: true, cell: (range) => h("span", { title: moment(range.planned_at) }, day(range.planned_at)) },
    { name: "State", cell: (range) => [state(range), range.error && !isOpen(range) ? h("div", { class: "quiet error" }, range.by ? `by ${range.by}: ` : null, range.error) : null, audited(range)] },
    { name: "Offsets", kind: "number", cell: (range) => number(range.offsets) },
    { name: "Rows", kind: "number", cell: (range) => [number(range.counts.rows_emitted), cost(range), remarks(range)] },
    { name: "Took", kind: "number", cell: (range) => known(duration(range), span) },
    { name: "Attempts", kind: "number", cell: (range) => number(range.attempts) },
    { name: "Run and log", cell: links },
    { name: "Why", kind: "why", cell: (range) => range.reason },
  ];
  const without = run === null || rows.some((row) => row.marked) ? null
    : h("p", { class: "quiet" }, "This run has no range here: it planned none, or its range is older than those shown.");
  return section("Ranges", without, h("div", { class: "panel" }, table("The newest ranges, the newest first", columns, rows, { class: "cards" })));
}

function partitions(lag) {
  if (!lag || !lag.of_partitions) return null;
  const rows = Object.entries(lag.partitions).flatMap(([topic, words]) => words.split(" ").map((word) => {
    const [partition, begin, taken, left, late] = word.split(",").map(Number);
    return { topic, partition, begin, taken, left, late };
  }));
  rows.sort((one, other) => other.left - one.left || one.topic.localeCompare(other.topic) || one.partition - other.partition);
  const most = Math.max(...rows.map((row) => row.left), 1);
  const columns = [
    { name: "Partition", head: true, cell: (row) => `${row.topic}[${row.partition}]` },
    { name: "Next offset", kind: "number", cell: (row) => number(row.begin) },
    { name: "End of the open range", kind: "number spare", cell: (row) => (row.taken ? number(row.begin + row.taken) : "–") },
    { name: "End of the log", kind: "number spare", cell: (row) => number(row.begin + row.left) },
    { name: "Late", kind: "number", cell: (row) => number(row.late) },
    { name: "Lag", kind: "number", cell: (row) => [number(row.left), bar(row.left / most, `${percent(row.left / most)} of the largest lag`)] },
  ];
  const some = rows.length < lag.of_partitions ? ` The ${number(rows.length)} with the largest lag are shown.` : "";
  return section(
    "Partitions",
    h("p", { class: "quiet" }, `${count(lag.of_partitions, "partition")}.${some} Late records are those of the last loaded range.`),
    h("div", { class: "panel scroll", tabindex: 0, role: "region", "aria-label": "Partitions" },
      table("Partitions, the largest lag first", columns, rows)),
  );
}
