/** The ended compactions, with the work and the effect of each run. */

import { read } from "./api.js";
import { keep, kept, settled } from "./address.js";
import { complain, confirm } from "./dialogs.js";
import { ago, entity, fill, h, keepingFocus, pager, table } from "./dom.js";
import { bytes, count, duration, moment, seconds } from "./format.js";
import { drawBytes, drawFiles, drawOpenings, redraw } from "./plots.js";

const DEFAULTS = { find: "", state: "", offset: 0 };
const LIMIT = 50;
const STATES = ["succeeded", "failed", "refused", "aborted", "did not initiate"];
const KINDS = { succeeded: "good", failed: "bad", aborted: "warn", refused: "warn" };
const state = kept(DEFAULTS);
let filter;
let list;
let plots;
let shell;

export async function show(given) {
  shell = given;
  if (!filter) {
    const search = h("input", { type: "search", value: state.find, placeholder: "Part of database.table/partition", "aria-label": "Find in the history",
      oninput: settled((event) => change({ find: event.target.value, offset: 0 })) });
    const choice = h("select", { "aria-label": "State", onchange: (event) => change({ state: event.target.value, offset: 0 }) },
      h("option", { value: "" }, "All states"), STATES.map((name) => h("option", { value: name, selected: name === state.state }, name)));
    filter = h("div", { class: "filter" }, search, choice);
    list = h("div", {});
    plots = h("div", { class: "plots" });
  }
  const [{ rows }] = await Promise.all([read("runs"), load()]);
  drawBytes(plots, rows);
  drawFiles(plots, rows);
  drawOpenings(plots, rows);
  redraw();
}

async function change(changes) {
  Object.assign(state, changes);
  keep(state, DEFAULTS);
  await keepingFocus(shell.place, load).catch(complain);
}

async function load() {
  const found = await read("history", { ...state, limit: LIMIT });
  if (!shell.place.contains(filter)) fill(shell.place, plots, filter, list);
  fill(list, table({ caption: "Compactions that have ended, newest first", columns: columns(), rows: found.rows, empty: state.find || state.state ? "Nothing matches." : "Nothing has ended yet." }),
    pager({ offset: state.offset, limit: LIMIT, total: found.total, onMove: (offset) => change({ offset }) }));
}

function columns() {
  const run = (text) => (row) => row.run ? text(row.run) : h("span", { class: "muted" }, "–");
  return [
    { label: "Table", wrap: true, cell: (row) => entity(`${row.dbname}.${row.tabname}`, row.partname) },
    { label: "ID", align: "right", cell: (row) => String(row.compactionid) },
    { label: "Type", cell: (row) => row.type.toLowerCase() },
    { label: "Committed", help: "Since then readers have the result; below, what became of the directories that it replaced", cell: committed },
    { label: "Directories", align: "right", cell: run((r) => beforeAndAfter(r.directories_before, r.directories_after, count)) },
    { label: "Files", align: "right", cell: run((r) => beforeAndAfter(r.files_before, r.files_after, count)) },
    { label: "Size", align: "right", cell: run((r) => beforeAndAfter(r.bytes_before, r.bytes_after, bytes)) },
    { label: "Cost", wrap: true, help: "Bytes read and written; below, those of stripes copied unchanged, those of them that the store or file system copied by itself (in place), and those decoded and encoded again", cell: run(cost) },
    { label: "Time", align: "right", help: "From the claim to the commit of all entries that went together; below, what runs of earlier batches let expect", cell: time },
    { label: "Opening", wrap: true, help: "Measured: time to list and open the input files and the output files, as a reader does before its first row; the return is the slower over the faster", cell: run(opening) },
    { label: "State", wide: true, cell: (row) => [h("span", { class: `chip ${KINDS[row.state] || "plain"}` }, row.state), row.errormessage ? h("span", { class: "because" }, row.errormessage) : null] },
    { label: "", cell: (row) => row.can_retry && shell.overview.rights.compact
      ? h("button", { type: "button", class: "quiet", "aria-label": `Retry compaction ${row.compactionid}`, onclick: () => retry(row) }, "Retry…") : null },
  ];
}

/** Two figures, with an arrow between them that is read as "to". */
function beforeAndAfter(before, after, text) {
  return h("span", { class: "unbroken" }, text(before), h("span", { class: "to" }, h("span", { "aria-hidden": "true" }, " → "), h("span", { class: "hidden" }, " to ")), text(after));
}

function committed(row) {
  const now = shell.overview.now;
  const at = (label, when) => h("span", { class: "partition" }, `${label} `, ago(when, now, duration));
  const later = [row.undone_at ? at("undone", row.undone_at) : null, row.cleaned_at ? at("cleaned", row.cleaned_at) : null];
  if (row.kept_until) later.push(h("span", { class: "partition" }, `in quarantine until ${moment(row.kept_until)}`));
  else if (row.removed_at && row.removed_at !== row.cleaned_at) later.push(at("removed from quarantine", row.removed_at));
  if (row.committed_at == null) return [h("span", { class: "muted" }, "no commit"), at("ended", row.endtime)];
  return [ago(row.committed_at, now, duration), ...later];
}

function time(row) {
  if (!row.run) return duration(row.duration);
  const run = row.run;
  const expected = run.expected_seconds;
  return [duration(row.run.seconds * 1000), expected == null ? null : h("span", { class: "partition" }, `expected ${duration(expected * 1000)}${run.expected_low == null ? "" : ` (${duration(run.expected_low * 1000)} to ${duration(run.expected_high * 1000)})`}`)];
}

function cost(run) {
  if (run.bytes_copied == null) return bytes(run.bytes_moved);
  const inPlace = run.bytes_taken_over ? ` (${bytes(run.bytes_taken_over)} in place)` : "";
  const copied = h("span", { class: "unbroken" }, `copied ${bytes(run.bytes_copied)}${inPlace},`);
  const reencoded = h("span", { class: "unbroken" }, `re-encoded ${bytes(run.bytes_reencoded)}`);
  return [bytes(run.bytes_moved), h("span", { class: "partition" }, copied, " ", reencoded)];
}

function opening(run) {
  if (run.opening_before == null || run.opening_after == null) return h("span", { class: "muted" }, "not measured");
  const times = run.opening_before / run.opening_after;
  const text = times >= 1 ? `${times.toFixed(1)} times as fast` : `${(1 / times).toFixed(1)} times as slow`;
  return [beforeAndAfter(run.opening_before, run.opening_after, seconds), h("span", { class: "partition" }, text)];
}

function retry(row) {
  const name = `${row.dbname}.${row.tabname}${row.partname == null ? "" : `/${row.partname}`}`;
  confirm({
    title: `Retry compaction ${row.compactionid}?`, text: "The same request is queued once more, with its pool and properties.",
    facts: [["Table", name], ["Type", row.type.toLowerCase()], ["It ended", `${row.state}${row.errormessage ? `: ${row.errormessage}` : ""}`]],
    button: "Retry the compaction", path: `compactions/${row.compactionid}/retry`, done: shell.refresh,
  });
}
