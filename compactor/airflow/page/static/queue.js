/** The queue: waiting and running compactions, and their progress. */

import { read } from "./api.js";
import { keep, kept, settled } from "./address.js";
import { complain } from "./dialogs.js";
import { ago, entity, fill, h, keepingFocus, pager, table } from "./dom.js";
import { duration } from "./format.js";
import { again, canceller, isRunning, progress, worker } from "./running.js";

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
  if (found.rows.some(isRunning)) again(shell, load);
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
    { label: "", cell: (row) => canceller(row, shell) },
  ];
}
