// What Airflow's public API says of the loads. Airflow checks who asks, by the cookie of its own login.

const API = new URL("../api/v2/", document.baseURI);
const AT_ONCE = 100;
const RANGES = 50;
const TOGETHER = 6;

/** What Airflow answered instead of what was asked for. */
export class Refused extends Error {
  constructor(status) {
    super(`Airflow answered ${status}`);
    this.status = status;
  }
}

async function get(path, parameters = {}) {
  const address = new URL(path, API);
  for (const [name, value] of Object.entries(parameters)) for (const each of [value].flat()) address.searchParams.append(name, each);
  const answer = await fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (!answer.ok) throw new Refused(answer.status);
  return answer.json();
}

/** All of what Airflow gives out in parts. */
async function every(path, key, parameters = {}) {
  const found = [];
  for (let total = 1; found.length < total; ) {
    const part = await get(path, { ...parameters, limit: AT_ONCE, offset: found.length });
    if (!part[key].length) break;
    found.push(...part[key]);
    total = part.total_entries;
  }
  return found;
}

async function perhaps(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && [403, 404].includes(error.status)) return null;
    throw error;
  }
}

/** Airflow's version as numbers, to compare, and as it is written. */
export async function version() {
  const text = (await get("version")).version;
  const [major, minor, patch] = text.split(".").map((part) => Number.parseInt(part, 10));
  return { text, number: major * 1e6 + minor * 1e3 + patch };
}

export const HAS_STATE = 3_003_000;
export const SEES_COOKIES = 3_001_008;

/** The assets of the loads that hold their statuses, with the DAGs that use them. */
export async function loads(airflow) {
  const kind = `orderedkafka://${airflow.number < HAS_STATE ? "status" : "ledger"}/`;
  return (await every("assets", "assets", { uri_pattern: kind, order_by: "name" }))
    .filter((asset) => asset.uri.startsWith(kind))
    .map((asset) => ({ id: asset.id, name: decodeURIComponent(asset.uri.slice(kind.length)), ...usersOf(asset) }));
}

/** The DAGs that use an asset, and the task groups of their tasks that do, as "<dag>/<group>". */
function usersOf(asset) {
  const tasks = [...(asset.consuming_tasks ?? []), ...(asset.producing_tasks ?? [])];
  const groups = tasks.map((task) => `${task.dag_id}/${groupOf(task.task_id)}`);
  return { dags: [...new Set(tasks.map((task) => task.dag_id))], groups: [...new Set(groups)] };
}

const groupOf = (task) => task.split(".").slice(0, -1).join(".");

/** The loads with their runs that wait for more to load; with none of those that may not be seen. */
export async function withWaiting(found) {
  const asked = { state: ["deferred", "up_for_reschedule", "running"], task_display_name_pattern: "wait" };
  const tasks = ((await perhaps(every("dags/~/dagRuns/~/taskInstances", "task_instances", asked))) ?? []).filter(({ task_id: id }) => id.endsWith(".wait"));
  return found.map((load) => ({ ...load, waiting: tasks
    .filter((task) => load.groups.includes(`${task.dag_id}/${groupOf(task.task_id)}`))
    .map((task) => ({ run: `${task.dag_id}/${task.dag_run_id}`, task: task.task_id })) }));
}

/** The statuses of these loads, a few at a time. */
export async function withStatus(found, airflow) {
  const left = [...found];
  const done = [];
  const work = async () => {
    for (let load = left.shift(); load; load = left.shift()) done.push({ ...load, ...(await statusOf(load, airflow)) });
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  return done.sort((one, other) => one.name.localeCompare(other.name));
}

async function statusOf(load, airflow) {
  if (airflow.number < HAS_STATE) return { status: await fromEvents(load) };
  const kept = await perhaps(get(`assets/${load.id}/state-store/status`));
  if (kept === null) return { status: null };
  return kept.value?.version ? { status: kept.value } : { status: null, elsewhere: true };
}

/**
 * Before it has a state store, Airflow has an event for each range that is planned or committed: the newest status, with
 * the ranges of all. What became of an open one is asked of its task.
 */
async function fromEvents(load) {
  const found = await get("assets/events", { asset_id: load.id, order_by: "-timestamp", limit: AT_ONCE });
  const told = found.asset_events.map((event) => event.extra?.status).filter(Boolean);
  if (!told.length) return null;
  const ranges = new Map(told.toReversed().flatMap((status) => status.ranges.map((range) => [range.id, range])));
  const { rows, revision } = told.find((status) => status.revision !== null) ?? told[0];
  const known = [...ranges.values()].slice(-RANGES);
  const last = known.findLast(({ kind }) => kind === "incremental");
  await Promise.all(known.map((range) => followed(range, last, load.groups)));
  return { ...told[0], rows, revision, ranges: known };
}

/** A load has one open range at a time: an older one has ended, though nobody told how. */
async function followed(range, last, groups) {
  if (range.state !== "planned") return;
  if (range.kind === "incremental" && range !== last) {
    range.state = "untold";
    return;
  }
  const task = (await tasksOf(range, groups)).find((each) => each.name === "load");
  if (!task?.state) return;
  const states = { running: "loading", success: "loaded", failed: "failed", up_for_retry: "failed" };
  range.state = states[task.state] ?? range.state;
  range.task = task.id;
  range.attempts = task.attempt;
  range.progress = await progressOf(range, task.id);
}

/** The load's tasks in the run that has a range, by their names in their group; none where that may not be seen. */
export async function tasksOf(range, groups) {
  const [dag, run] = place(range.run);
  const found = (await perhaps(every(`dags/${dag}/dagRuns/${run}/taskInstances`, "task_instances"))) ?? [];
  return found.filter((task) => groups.includes(`${task.dag_id}/${groupOf(task.task_id)}`)).map((task) => ({
    id: task.task_id,
    name: task.task_id.split(".").at(-1),
    state: task.state,
    attempt: task.try_number,
  }));
}

/** The progress that a task has in an XCom, where there is no state store. */
async function progressOf(range, task) {
  const [dag, run] = place(range.run);
  const found = await perhaps(get(`dags/${dag}/dagRuns/${run}/taskInstances/${encodeURIComponent(task)}/xcomEntries/progress`));
  const value = found?.value;
  return typeof value === "string" ? JSON.parse(value) : (value ?? null);
}

/** The DAG and the run of "<dag>/<run>", each for an address. */
function place(run) {
  const at = run.indexOf("/");
  return [run.slice(0, at), run.slice(at + 1)].map(encodeURIComponent);
}

export const dagOf = (run) => run.slice(0, run.indexOf("/"));
export const runIdOf = (run) => run.slice(run.indexOf("/") + 1);
export const runPage = (run) => `../dags/${place(run)[0]}/runs/${place(run)[1]}`;
export const taskPage = (run, task) => `${runPage(run)}/tasks/${encodeURIComponent(task)}`;
export const dagPage = (dag) => `../dags/${encodeURIComponent(dag)}`;
