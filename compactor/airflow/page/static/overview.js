/** The health of all tables, what is due and runs, and what compaction brought. */

import { read } from "./api.js";
import { ago, bar, entity, fill, h, table } from "./dom.js";
import { bytes, count, counted, duration, seconds } from "./format.js";
import { drawDays, redraw } from "./plots.js";
import { again, canceller, progress, worker } from "./running.js";

const STEPS = [["below 20", "bad"], ["20 to 39", "bad"], ["40 to 59", "warn"], ["60 to 79", "warn"], ["80 and more", "good"], ["unknown", "plain"]];
const FEW = 10;
const OLD = 5000; // ms: figures that are older say so
const READS_EVERY = 300000; // ms: they are compared over weeks, from many rows
let ids; // of what runs, as last shown
let parts;
let shell;
let reads; // as last read, and when

export async function show(given) {
  shell = given;
  const [found, told] = await Promise.all([read("fleet"), readsOfLate()]);
  parts ??= { alarms: h("div", { class: "alarms" }), cards: h("div", { class: "cards" }), running: h("div", { class: "running" }), plots: h("div", { class: "plots" }), rest: h("div", {}) };
  if (!shell.place.contains(parts.cards)) fill(shell.place, parts.alarms, parts.cards, parts.running, parts.plots, parts.rest);
  fill(parts.alarms, found.alarms.length ? [h("h2", {}, "Alarms"), alarms(found)] : null);
  fill(parts.cards, cards(found));
  fill(parts.rest, [h("h2", {}, "What compaction brought"), returns(found), told.rows.length ? [h("h2", {}, "What readers felt in 30 days"), readers(told)] : null, h("h2", {}, "Health by database"), health(found),
    h("h2", {}, "Worst tables"), worst(found),
    found.failures.length ? [h("h2", {}, "Failed in the last 7 days"), failures(found), more(found.failed, found.failures.length)] : null]);
  drawDays(parts.plots, found.days);
  redraw();
  ids = null;
  await run(found.working);
}

async function readsOfLate() {
  if (!reads || Date.now() - reads.at > READS_EVERY) reads = { at: Date.now(), told: await read("reads") };
  return reads.told;
}

/** What runs is read from the queue, again and again while there is any; all else only once something has begun or ended. */
async function run(working) {
  const found = working ? await read("queue", { state: "working", limit: FEW }) : { rows: [], total: 0 };
  const now = found.rows.map((row) => row.compactionid).join();
  if (ids !== null && ids !== now) return shell.refresh();
  ids = now;
  fill(parts.running, found.rows.length ? [h("h2", {}, "Running now"), running(found), more(found.total, found.rows.length)] : null);
  if (found.rows.length) again(shell, () => run(found.total));
}

function cards(found) {
  const card = (label, value, kind, href) => h("a", { class: `button card ${kind}`, href }, h("strong", {}, value), h("span", {}, label));
  const waits = found.expected_seconds ? `waiting, about ${duration(found.expected_seconds * 1000)} of work` : "waiting";
  return [card("due for compaction", count(found.due), found.due ? "warn" : "good", "tables?outcome=due"), card(waits, count(found.waiting), "", "queue?state=initiated"),
    card("running", count(found.working), "", "queue?state=working"), card("ready for cleaning", count(found.ready_for_cleaning), "", "queue?state=ready+for+cleaning"),
    card("failed in 7 days", count(found.failed), found.failed ? "bad" : "", "history?state=failed"),
    h("p", { class: "muted looked" }, found.looked_at ? ["The initiator's last pass was ", ago(found.looked_at, shell.overview.now, duration), "."] : "The initiator has not made a pass yet.", found.estimate_error === null ? "" : ` Estimates of the newest runs were ${Math.round(found.estimate_error * 100)} % off in the median.`,
      shell.overview.now - found.counted_at > OLD ? [" Counted ", ago(found.counted_at, shell.overview.now, duration), "."] : "")];
}

function alarms(found) {
  return table({ caption: "Alarms", rows: found.alarms, empty: "", columns: [
    { label: "Level", cell: (row) => h("span", { class: `chip ${row.level === "fail" ? "bad" : "warn"}` }, row.level === "fail" ? "error" : "warning") },
    { label: "Alarm", wrap: true, cell: (row) => row.view ? h("a", { href: row.view }, row.message) : row.message }, { label: "What to do", wide: true, cell: (row) => row.fix },
  ] });
}

function returns(found) {
  return table({ caption: "What compaction brought", rows: found.returns, empty: "Nothing is stored here: mode observe without a state_url keeps no state.", columns: [
    { label: "Last", cell: (row) => counted(row.days, "day") }, { label: "Runs", align: "right", cell: (row) => count(row.runs) },
    { label: "Fewer directories to read", align: "right", help: "From the commit of each run on, unless it was undone", cell: (row) => count(row.fewer_directories) }, { label: "Fewer files to read", align: "right", help: "From the commit of each run on, unless it was undone", cell: (row) => count(row.fewer_files) },
    { label: "Files removed", align: "right", help: "Counted by the cleaner, after readers have ended and after quarantine", cell: (row) => [count(row.removed_files), h("span", { class: "partition" }, bytes(row.removed_bytes))] },
    { label: "Moved", align: "right", help: "Bytes read and written", cell: (row) => bytes(row.bytes_moved) }, { label: "Time", align: "right", help: "Of all runs together, from claim to commit", cell: (row) => duration(row.seconds * 1000) }, { label: "Processor time", align: "right", help: "Core-seconds of their units", cell: (row) => duration(row.core_seconds * 1000) },
    { label: "Opening saved", align: "right", help: "Seconds less to list and open the files of the measured runs, once for each", cell: (row) => seconds(row.opening) },
  ] });
}

function readers(told) {
  const change = (before, after, text) => before == null ? h("span", { class: "muted" }, "–") : `${text(before)} → ${text(after)}`;
  return table({ caption: "Reads of tables, and like queries before and after their compactions", rows: told.rows, empty: "", columns: [
    { label: "Table", wrap: true, cell: (row) => row.table }, { label: "Queries", align: "right", cell: (row) => row.queries ? count(row.queries) : h("span", { class: "chip warn" }, "nobody reads it") },
    { label: "Time in all", align: "right", cell: (row) => duration(row.seconds * 1000) }, { label: "Last read", cell: (row) => ago(row.last_at, shell.overview.now, duration) },
    { label: "Compactions", align: "right", cell: (row) => count(row.runs) }, { label: "Like queries", align: "right", help: "Of the same text but for its constants, within a week before and after a compaction", cell: (row) => count(row.like_queries) },
    { label: "Before → after", cell: (row) => change(row.before, row.after, seconds) }, { label: "Files", help: "Splits or tasks, as far as the engine says them", cell: (row) => change(row.files_before, row.files_after, (n) => count(Math.round(n))) },
  ] });
}

function health(found) {
  return table({ caption: "Health by database", rows: found.health, empty: "No table has been looked at yet.", columns: [
    { label: "Database", wrap: true, cell: (row) => h("a", { href: `tables?${new URLSearchParams({ find: `${row.database}.` })}` }, row.database) },
    ...STEPS.map(([step, kind]) => ({ label: step, align: "right", cell: (row) => row[step] ? h("span", { class: `chip ${kind}` }, count(row[step])) : "0" })),
  ] });
}

function worst(found) {
  return table({ caption: "Tables with the least healthy partitions", rows: found.worst, empty: "No table has been looked at yet.", columns: [
    { label: "Table", wrap: true, cell: (row) => h("a", { href: `tables?${new URLSearchParams({ find: `${row.database}.${row.table}` })}` }, `${row.database}.${row.table}`) },
    { label: "Health", cell: (row) => h("span", { class: "health" }, bar(row.health, row.health >= 80 ? "good" : row.health >= 50 ? "warn" : "bad", `Health ${row.health} of 100`, "meter"), h("span", { "aria-hidden": "true" }, String(row.health))) },
    { label: "Partitions", align: "right", help: "1 for a table without any", cell: (row) => count(row.partitions) }, { label: "Deltas", align: "right", cell: (row) => count(row.deltas) },
    { label: "Size", align: "right", cell: (row) => bytes(row.bytes) },
  ] });
}

function running(found) {
  return table({ caption: "Running now", rows: found.rows, empty: "", columns: [{ label: "Table", wrap: true, cell: (row) => entity(`${row.dbname}.${row.tabname}`, row.partname) }, { label: "ID", align: "right", cell: (row) => String(row.compactionid) },
    { label: "Type", cell: (row) => row.type.toLowerCase() }, { label: "Worker", wrap: true, cell: worker }, { label: "Progress", wide: true, cell: progress }, { label: "", cell: (row) => canceller(row, shell) }] });
}

function failures(found) {
  return table({ caption: "Failed in the last 7 days", rows: found.failures, empty: "", columns: [{ label: "Table", wrap: true, cell: (row) => row.table }, { label: "ID", align: "right", cell: (row) => String(row.compaction) },
    { label: "Ended", cell: (row) => ago(row.ended, shell.overview.now, duration) }, { label: "Error", wide: true, cell: (row) => row.error || "the reason is not known" }] });
}

function more(there, shown) {
  return there > shown ? h("p", { class: "muted" }, `and ${count(there - shown)} more`) : null;
}
