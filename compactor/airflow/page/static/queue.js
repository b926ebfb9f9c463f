/** The queue: waiting and running compactions, and their progress. */

import { read } from "./api.js";
import { keep, kept, settled } from "./address.js";
import { complain, confirm } from "./dialogs.js";
import { ago, bar, entity, external, fill, h, keepingFocus, pager, table } from "./dom.js";
import { counted, duration } from "./format.js";

const DEFAULTS = { find: "", state: "", offset: 0 };
const LIMIT = 50;
const STATES = ["initiated", "working", "ready for cleaning"];
const state = kept(DEFAULTS);
let filter;
let list;
let shell;

export async function show(given) {
  shell = given;
  if (!filter) {
    const search = h("input", { type: "search", value: state.find, placeholder: "Part of database.table/partition", "aria-label": "Find in the queue",
      oninput: settled((event) => change({ find: event.target.value, offset: 0 })) });
    const choice = h("select", { "aria-label": "State", onchange: (event) => change({ state: event.target.value, offset: 0 }) },
      h("option", { value: "" }, "All states"), STATES.map((name) => h("option", { value: name, selected: name === state.state }, name)));
    filter = h("div", { class: "filter" }, search, choice);
    list = h("div", {});
  }
  await load();
}

async function change(changes) {
  Object.assign(state, changes);
  keep(state, DEFAULTS);
  await keepingFocus(shell.place, load).catch(complain);
}

async function load() {
  const found = await read("queue", { ...state, limit: LIMIT });
  if (!shell.place.contains(filter)) fill(shell.place, filter, list);
  fill(list, table({ caption: "Queue of compactions, oldest first", columns: columns(), rows: found.rows, empty: state.find || state.state ? "Nothing matches." : "The queue is empty." }),
    pager({ offset: state.offset, limit: LIMIT, total: found.total, onMove: (offset) => change({ offset }) }));
}

function columns() {
  return [
    { label: "Table", wrap: true, cell: (row) => entity(`${row.dbname}.${row.tabname}`, row.partname) },
    { label: "ID", align: "right", cell: (row) => String(row.compactionid) },
    { label: "Type", cell: (row) => row.type.toLowerCase() },
    { label: "State", cell: (row) => h("span", { class: `chip ${{ working: "busy", "ready for cleaning": "good" }[row.state] || "plain"}` }, row.state) },
    { label: "Requested", cell: (row) => ago(row.enqueuetime, shell.overview.now, duration) },
    { label: "Pool", cell: (row) => row.poolname },
    { label: "Worker", wrap: true, cell: worker },
    { label: "Progress", wide: true, cell: progress },
    { label: "", cell: (row) => row.can_cancel && shell.overview.rights.compact
      ? h("button", { type: "button", class: "quiet", "aria-label": `Cancel compaction ${row.compactionid}`, onclick: () => cancel(row) }, "Cancel…") : null },
  ];
}

const isWeb = (url) => /^https?:/.test(url || "");

function worker(row) {
  if (!row.workerhost && !row.batch) return h("span", { class: "muted" }, "–");
  const name = row.batch?.application || (row.batch ? `batch ${row.batch.batch}` : null);
  const link = isWeb(row.batch?.tracking_url) ? external(row.batch.tracking_url, name) : name;
  const log = isWeb(row.batch?.log_url) ? [" ", external(row.batch.log_url, "driver's log")] : [];
  return [row.workerhost ? h("span", { class: "name", title: row.workerid }, row.workerhost) : null, link ? h("span", { class: "partition" }, link, ...log) : null];
}

function progress(row) {
  const batch = row.batch ? h("span", { class: "partition" }, `batch ${row.batch.batch}: ${row.batch.done} of ${counted(row.batch.entries, "entry", "entries")} done`) : null;
  if (row.state !== "working") return [h("span", {}, /^(a|the) /.test(row.waits_for || "") ? `waits for ${row.waits_for}` : row.waits_for), batch];
  const expected = row.expected_ms;
  const meter = expected ? bar(Math.min(95, Math.round(100 * row.working_ms / expected)), "busy", "Elapsed time as a share of the previous run's", "progressbar") : null;
  return [h("span", {}, `working for ${duration(row.working_ms)}`, expected ? `, the previous run took ${duration(expected)}` : ""), meter, batch];
}

function cancel(row) {
  const name = `${row.dbname}.${row.tabname}${row.partname == null ? "" : `/${row.partname}`}`;
  confirm({
    title: `Cancel compaction ${row.compactionid}?`,
    text: row.state === "working" ? "Its worker is stopped and its staged files are removed. Readers are not affected." : "It is taken off the queue.",
    facts: [["Table", name], ["Type", row.type.toLowerCase()], ["State", row.state]],
    button: "Cancel the compaction", keep: row.state === "working" ? "Let it run" : "Leave it in the queue", danger: true, path: `compactions/${row.compactionid}/cancel`, done: shell.refresh,
  });
}
