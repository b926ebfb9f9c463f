/** Compactions that wait or run: who works on each, how far it is, and how it is cancelled. For the queue and the overview. */

import { complain, confirm } from "./dialogs.js";
import { bar, external, h, keepingFocus } from "./dom.js";
import { bytes, counted, duration, withMoments } from "./format.js";

const OFTEN = 2000; // ms between two looks at what runs
let timer;

/** Calls ``load`` again in two seconds, unless nobody would see it then, or something is being typed. */
export function again(shell, load) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (shell.busy()) again(shell, load);
    else await keepingFocus(shell.place, load).catch(complain);
  }, OFTEN);
}

export const isRunning = (row) => row.state === "working";

const isWeb = (url) => /^https?:/.test(url || "");

/** The path alone: the page is served by the same Airflow, whatever it believes its own address to be. */
const within = (url) => `${new URL(url).pathname}${new URL(url).search}`;

export function worker(row) {
  if (!row.workerhost && !row.batch) return h("span", { class: "muted" }, "–");
  const name = row.batch?.application || (row.batch ? `batch ${row.batch.batch}` : null);
  const link = isWeb(row.batch?.tracking_url) ? external(row.batch.tracking_url, name) : name;
  const log = isWeb(row.batch?.log_url) ? [" ", external(row.batch.log_url, "driver's log")] : [];
  const task = isWeb(row.batch?.task_url) ? [" ", external(within(row.batch.task_url), "Airflow's task")] : [];
  return [row.workerhost ? h("span", { class: "name", title: row.workerid }, row.workerhost) : null, link ? h("span", { class: "partition" }, link, ...log, ...task) : null];
}

export function progress(row) {
  const batch = row.batch ? h("span", { class: "partition" }, `batch ${row.batch.batch}: ${row.batch.done} of ${counted(row.batch.entries, "entry", "entries")} done`) : null;
  const place = row.place_because ? h("span", { class: "because" }, row.place == null ? row.place_because : `place ${row.place}: ${row.place_because}`) : null;
  if (!isRunning(row)) return [h("span", {}, withMoments(/^(a|the) /.test(row.waits_for || "") ? `waits for ${row.waits_for}` : row.waits_for)), place, batch];
  return [h("span", {}, `working for ${duration(row.working_ms)}${left(row)}`), ...(row.progress ? units(row.progress) : elapsed(row)), batch];
}

function left(row) {
  if (row.left_ms == null) return "";
  return row.left_ms > 0 ? `, about ${duration(row.left_ms)} left` : ", about to end";
}

function units(found) {
  const part = found.bytes ? found.bytes_done / found.bytes : found.units ? found.units_done / found.units : 0;
  return [bar(Math.round(100 * part), "busy", "Bytes of the input that are done", "progressbar"),
    h("span", { class: "partition" }, `${found.units_done} of ${counted(found.units, "unit")}, ${bytes(found.bytes_done)} of ${bytes(found.bytes)}`)];
}

function elapsed(row) {
  if (!row.expected_ms) return [];
  return [bar(Math.min(95, Math.round(100 * row.working_ms / row.expected_ms)), "busy", "Elapsed time as a share of the previous run's", "progressbar"),
    h("span", { class: "partition" }, `the previous run took ${duration(row.expected_ms)}`)];
}

/** The button that cancels a compaction, which says what that does. */
export function canceller(row, shell) {
  if (!row.can_cancel || !shell.overview.rights.compact) return null;
  return h("button", { type: "button", class: "quiet", "aria-label": `Cancel ${isRunning(row) ? "run" : "request"} of compaction ${row.compactionid}`, title: isRunning(row) ? "Stops its worker; nothing of it is kept" : "Takes the request off the queue",
    onclick: () => cancel(row, shell) }, isRunning(row) ? "Cancel run…" : "Cancel request…");
}

function cancel(row, shell) {
  const name = `${row.dbname}.${row.tabname}${row.partname == null ? "" : `/${row.partname}`}`;
  confirm({
    title: `Cancel compaction ${row.compactionid}?`,
    text: isRunning(row) ? "Its worker is stopped and its staged files are removed. Readers are not affected." : "It is taken off the queue.",
    facts: [["Table", name], ["Type", row.type.toLowerCase()], ["State", row.state]],
    button: "Cancel the compaction", keep: isRunning(row) ? "Let it run" : "Leave it in the queue", danger: true, path: `compactions/${row.compactionid}/cancel`, done: shell.refresh,
  });
}
