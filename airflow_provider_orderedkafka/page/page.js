// What is asked for by the address: every load, those of a DAG, or one of them. It is asked again every few seconds.

import { HAS_STATE, Refused, SEES_COOKIES, dagOf, loads, tasksOf, version, withStatus, withWaiting } from "./airflow.js";
import { h, keepTimesTrue, show } from "./html.js";
import { sections } from "./load.js";
import { filtered, overview, summary } from "./overview.js";
import { ELSEWHERE, isOverdue, openRanges, output, waits } from "./parts.js";

const CALM_SECONDS = 10;
const BUSY_SECONDS = 3;
const FILTERED_FROM = 4;

// Airflow 3.1 puts a run's id into the address of its tab as it is, and a plus would be read as a blank.
const asked = new URLSearchParams(location.search.replaceAll("+", "%2B"));
const part = (id) => document.getElementById(id);
const dagsOf = ({ dags, status }) => new Set([...dags, ...(status ? [status.dag, ...status.ranges.map((range) => dagOf(range.run))] : [])]);

let airflow = null;
let busy = false;

/** What to show: of a DAG with one load, or of the load that a run loaded, that load alone. */
async function found() {
  airflow ??= await version();
  const name = asked.get("load");
  const all = await loads(airflow);
  const wanted = name === null ? all : all.filter((load) => load.name === name);
  const known = await withWaiting(await withStatus(wanted, airflow));
  const dag = asked.get("dag");
  const mine = dag === null ? known : known.filter((load) => dagsOf(load).has(dag));
  const run = asked.get("run") === null ? null : `${dag}/${asked.get("run")}`;
  const ofRun = mine.filter((load) => load.status?.ranges.some((range) => range.run === run));
  return { all, mine: ofRun.length ? ofRun : mine, run, name, dag };
}

async function draw() {
  const { all, mine, run, name, dag } = await found();
  part("notice").textContent = "";
  note(airflow);
  const [load] = mine;
  if (mine.length === 1 && load.status && (name !== null || dag !== null)) return drawLoad(load, run);
  busy = mine.some((each) => each.status && openRanges(each.status).length);
  if (mine.length && name === null) return drawOverview(mine);
  return drawNothing(all, load, name, dag);
}

function head(title, subtitle, inside) {
  document.title = inside ? `${title} · Kafka loads` : title;
  part("title").textContent = title;
  part("subtitle").textContent = subtitle;
  part("filter").hidden = true;
  show(part("trail"), [inside], () => (inside && asked.get("dag") === null ? h("a", { href: "?" }, "All loads") : null));
}

function drawOverview(mine) {
  head("Kafka loads", summary(mine), false);
  whole(["overview", mine, mine.map(({ status }) => status !== null && isOverdue(status))], () => overview(mine));
  part("filter").hidden = mine.length < FILTERED_FROM;
  filter();
}

const filter = () => filtered([...part("main").querySelectorAll("tbody tr, details li")], part("filter").hidden ? "" : part("filter").value);

/** Show one thing, in place of a load's sections, too. */
function whole(key, make) {
  delete part("main").dataset.load;
  show(part("main"), key, make);
}

async function drawLoad(load, run) {
  const { status, waiting } = load;
  const open = openRanges(status);
  busy = open.length > 0;
  const tasks = Object.fromEntries(await Promise.all(open.map(async (range) => [range.id, await tasksOf(range, load.groups)])));
  const more = status.of_topics > status.topics.length ? ` and ${status.of_topics - status.topics.length} more` : "";
  const to = output(status) ? ` to ${output(status)}` : "";
  head(load.name, `${status.topics.join(", ")}${more}${to}`, true);
  const main = part("main");
  const drawn = sections({ status, waiting, tasks, run });
  if (main.dataset.load !== load.name) {
    main.dataset.load = load.name;
    delete main.dataset.shown;
    main.replaceChildren(...drawn.map(([id]) => h("div", { id })));
  }
  for (const [id, key, make] of drawn) show(part(id), key, make);
}

function drawNothing(all, load, name, dag) {
  head(name ?? "Kafka loads", "", name !== null);
  const words = [
    [load?.elsewhere, ELSEWHERE],
    [name !== null && load?.waiting.length, "The first run of this load is waiting for enough to load."],
    [name !== null && load, "This load has not run yet. It appears here with its first run."],
    [name !== null, "There is no load of this name, or you may not see it."],
    [dag !== null && all.length, "No load of this DAG was found: it has none, or none of its runs has begun."],
    [true, "No load yet. One appears here when Airflow has read a DAG with ordered_load()."],
  ].find(([holds]) => holds)[1];
  const waiting = load?.waiting ?? [];
  whole(["nothing", words, waiting], () => h("div", { class: "empty" }, words, waits(waiting)));
}

function note(found) {
  const words = found.number < HAS_STATE
    ? `Airflow ${found.text} has no asset state store (3.3 has one): the numbers are those of the last range that was planned or committed. New records in Kafka, and the batches of an open range, are not shown.`
    : "";
  part("footer").textContent = words;
}

function refused(error) {
  const known = error instanceof Refused;
  const old = airflow !== null && airflow.number < SEES_COOKIES;
  const words = [
    [known && error.status === 401 && old, `Airflow ${airflow?.text} does not let pages of plugins see your login: upgrade to 3.1.8 or newer.`],
    [known && error.status === 401, "You are not logged in, or your login has expired."],
    [known && error.status === 403, "You may not see this. It needs the permission to read assets; ask whoever runs this Airflow."],
    [known, `Airflow answered with an error (${error.status}). Trying again.`],
    [true, "Airflow does not answer. Trying again."],
  ].find(([holds]) => holds)[1];
  const login = known && error.status === 401 ? [" ", h("a", { href: "../", "data-leave": true }, "Log in to Airflow")] : [];
  part("notice").replaceChildren(words, ...login);
  if (!known || ![401, 403].includes(error.status)) return;
  part("filter").hidden = true;
  whole(["refused", words], () => null);
}

async function keepDrawing() {
  for (;;) {
    if (!document.hidden) await draw().catch(refused);
    await new Promise((done) => setTimeout(done, 1_000 * (busy ? BUSY_SECONDS : CALM_SECONDS)));
  }
}

/** Airflow frames the page, and keeps it from navigating what is around it; a link of Airflow's own document may. */
function leave(event) {
  const link = event.target.closest?.("a[data-leave]");
  if (!link || window.parent === window) return;
  event.preventDefault();
  const around = window.parent.document.createElement("a");
  around.href = link.href;
  if (event.ctrlKey || event.metaKey || event.shiftKey) around.target = "_blank";
  window.parent.document.body.append(around);
  around.click();
  around.remove();
}

/** Be light or dark as Airflow is, where it frames the page, and elsewhere as the system asks for. */
function followAirflow() {
  const around = window.frameElement?.ownerDocument.documentElement.style.colorScheme;
  document.documentElement.style.colorScheme = around ?? "";
}

followAirflow();
document.addEventListener("click", leave);
part("filter").addEventListener("input", filter);
setInterval(keepTimesTrue, 1_000);
setInterval(followAirflow, 1_000);
keepDrawing();
