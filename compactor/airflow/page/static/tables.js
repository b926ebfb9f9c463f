/** All tables and partitions, with the decisions of the initiator's last look. */

import { read } from "./api.js";
import { keep, kept, settled } from "./address.js";
import { askToCompact, complain, confirm, open } from "./dialogs.js";
import { ago, bar, entity, fill, h, keepingFocus, pager, table } from "./dom.js";
import { bytes, count, counted, duration, moment, percent } from "./format.js";

const DEFAULTS = { find: "", outcome: "", order: "health", descending: false, offset: 0 };
const LIMIT = 50;
const OUTCOMES = [["", "All decisions"], ["due", "Due for compaction"], ["calm", "Not needed"], ["skipped", "Skipped"], ["error", "Errors"]];
const WORDS = { major: "Major", minor: "Minor", rebalance: "Rebalance", cleanonly: "Clean only", abortcleanup: "Abort clean-up", notneeded: "Not needed", skipped: "Skipped", error: "Error" };
const KINDS = { notneeded: "good", skipped: "plain", error: "bad" };
const state = kept(DEFAULTS);
let cards;
let filter;
let list;
let shell;

export async function show(given) {
  shell = given;
  if (!filter) build();
  await load();
}

function build() {
  const search = h("input", { type: "search", value: state.find, placeholder: "Part of database.table/partition", "aria-label": "Find tables",
    oninput: settled((event) => change({ find: event.target.value, offset: 0 })) });
  const outcome = h("select", { "aria-label": "Decision", onchange: (event) => change({ outcome: event.target.value, offset: 0 }) },
    OUTCOMES.map(([value, label]) => h("option", { value, selected: value === state.outcome }, label)));
  filter = h("div", { class: "filter" }, search, outcome);
  list = h("div", {});
  cards = h("div", { class: "cards" });
}

async function change(changes) {
  Object.assign(state, changes);
  keep(state, DEFAULTS);
  await keepingFocus(shell.place, load).catch(complain);
}

async function load() {
  const found = await read("tables", { ...state, limit: LIMIT });
  const { overview } = shell;
  if (!shell.place.contains(filter)) fill(shell.place, cards, filter, list);
  fill(cards, summary(overview));
  fill(list, table({
    caption: "Tables and partitions", columns: columns(overview), rows: found.rows, order: state.order, descending: state.descending,
    onSort: (order, descending) => change({ order, descending, offset: 0 }),
    empty: empty(overview),
  }), pager({ offset: state.offset, limit: LIMIT, total: found.total, onMove: (offset) => change({ offset }) }));
}

function empty(overview) {
  if (!overview.remembers) return "Nothing is stored here: mode observe without a state_url keeps no state.";
  if (state.find || state.outcome) return "No table matches.";
  return `The initiator has looked at nothing yet. Unpause the DAG ${overview.dags.compaction_initiator}.`;
}

function summary(overview) {
  const of = (...names) => names.reduce((sum, name) => sum + (overview.outcomes[name] || 0), 0);
  const all = Object.values(overview.outcomes).reduce((sum, n) => sum + n, 0);
  const card = (label, value, kind, outcome) => h("button", { type: "button", class: `card ${kind || ""}`, "aria-pressed": String(state.outcome === outcome),
    onclick: () => { filter.querySelector("select").value = outcome; change({ outcome, offset: 0 }); } }, h("strong", {}, value), h("span", {}, label));
  return [card("tables and partitions", count(all), "", ""),
    card("due for compaction", count(of("major", "minor", "rebalance", "cleanonly", "abortcleanup")), "warn", "due"),
    card("not needed", count(of("notneeded")), "good", "calm"), card("skipped", count(of("skipped")), "", "skipped"),
    card("errors", count(of("error", "disagreement")), of("error", "disagreement") ? "bad" : "", "error"),
    h("p", { class: "muted looked" }, overview.looked_at ? ["The initiator's last pass was ", ago(overview.looked_at, overview.now, duration), "."] : "The initiator has not made a pass yet.")];
}

function columns(overview) {
  const figure = (name, text) => (row) => row.figures ? text(row.figures[name]) : h("span", { class: "muted" }, "–");
  return [
    { label: "Table", sort: "table", wrap: true, cell: (row) => h("button", { type: "button", class: "link", onclick: () => explain(row) }, entity(row.table, row.partition)) },
    { label: "Health", sort: "health", help: "0 to 100: deltas to merge, deletes, small files, aborts", cell: health },
    { label: "Deltas", sort: "deltas", largest: true, align: "right", cell: figure("deltas", count) },
    { label: "In deltas", sort: "delta_bytes", largest: true, align: "right", help: "Bytes in deltas", cell: figure("delta_bytes", bytes) },
    { label: "Deletes", sort: "delete_ratio", largest: true, align: "right", help: "Share of the bytes in delete deltas", cell: figure("delete_ratio", percent) },
    { label: "Small files", sort: "small_files", largest: true, align: "right", help: "Files below 16 MB that could be joined with another one, of all files",
      cell: (row) => row.figures ? `${count(row.figures.small_files)} / ${count(row.figures.files)}` : h("span", { class: "muted" }, "–") },
    { label: "Size", sort: "bytes", largest: true, align: "right", cell: figure("bytes", bytes) },
    { label: "Aborts", sort: "aborts", largest: true, align: "right", help: "Aborted transactions that are not forgotten yet", cell: figure("aborts", count) },
    { label: "Compacted", sort: "last_compacted", largest: true, cell: (row) => ago(row.last_compacted, overview.now, duration) },
    { label: "Looked at", sort: "at", largest: true, help: "When its directory was last looked at: by a pass of the initiator, after a compaction or a cleaning, or by Look now", cell: (row) => age(row, overview.now) },
    { label: "Decision", sort: "outcome", wide: true, cell: decision },
  ];
}

function health(row) {
  if (!row.figures) return h("span", { class: "muted" }, "unknown");
  const value = row.figures.health;
  const kind = value >= 80 ? "good" : value >= 50 ? "warn" : "bad";
  return h("span", { class: "health" }, bar(value, kind, `Health ${value} of 100`, "meter"), h("span", { "aria-hidden": "true" }, String(value)));
}

function decision(row) {
  const due = KINDS[row.outcome] || "warn";
  const queued = row.queued ? h("span", { class: "chip" }, `${row.queued.state} as ${row.queued.compactionid}`) : null;
  const paused = row.paused ? h("span", { class: "chip busy" }, "Paused") : null;
  return [h("span", { class: `chip ${due}` }, WORDS[row.outcome] || row.outcome), paused, queued, h("span", { class: "because" }, row.because)];
}

/** The age of what a row says, and whether a compaction has ended since. */
function age(row, now) {
  const changed = row.changed_at ? h("span", { class: "chip warn", title: "Look now, or wait for the next pass of the initiator" }, "compacted since") : null;
  return [ago(row.at, now, duration), changed];
}

function explain(row, now = shell.overview.now) {
  const name = row.partition == null ? row.table : `${row.table}/${row.partition}`;
  const fresh = h("div", { "aria-live": "polite" });
  const look = async () => {
    fill(fresh, h("p", { class: "muted" }, "Looking…"));
    try {
      const found = await read("explain", { table: row.table, partition: row.partition });
      explain(found.row, found.now);
      await load();
    } catch (error) {
      fill(fresh, h("p", { class: "problem" }, error.message));
    }
  };
  const figures = row.figures;
  const facts = figures ? [["Health", `${figures.health} of 100`], ["Base", bytes(figures.base_bytes)], ["Deltas", `${count(figures.deltas)}, ${bytes(figures.delta_bytes)}`],
    ["Delete deltas", `${bytes(figures.delete_bytes)}, ${percent(figures.delete_ratio)} of all`], ["Files", `${count(figures.files)}, ${count(figures.small_files)} of them small`],
    ["Obsolete", counted(figures.obsolete, "directory", "directories")], ["Aborted transactions", count(figures.aborts)]] : [];
  facts.push(["Last compacted", row.last_compacted ? moment(row.last_compacted) : "never, as far as the history goes back"], ["Looked at", h("span", { class: "looked-at" }, moment(row.at), ", ", age(row, now))]);
  const rights = shell.overview.rights;
  const buttons = h("div", { class: "buttons" }, h("a", { class: "button quiet", href: `history?${new URLSearchParams({ find: name })}` }, "History"),
    h("a", { class: "button quiet", href: `settings?${new URLSearchParams({ table: row.table })}` }, "Settings"),
    h("button", { type: "button", class: "quiet", onclick: look }, "Look now"),
    rights.compact && !row.paused ? h("button", { type: "button", class: "quiet", onclick: () => pause(row) }, "Pause…") : null,
    rights.compact && row.paused ? h("button", { type: "button", class: "quiet", onclick: () => resume(row) }, "Resume…") : null,
    rights.compact && row.outcome === "skipped" && !row.paused ? h("button", { type: "button", class: "quiet", onclick: () => consider(row) }, "Consider again…") : null,
    rights.compact ? h("button", { type: "button", class: "primary", onclick: () => askToCompact({ table: row.table, partition: row.partition, done: shell.refresh }) }, "Compact…") : null);
  open(name, h("div", {}, verdict(row), fresh, h("h3", {}, "Figures"), h("dl", { class: "facts" }, facts.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])), buttons), { wide: true });
}

function verdict(found) {
  const flips = found.flips.length ? [h("h3", {}, "What would change this"), h("ul", {}, found.flips.map((flip) => h("li", {}, flip)))] : null;
  return [h("p", {}, h("span", { class: `chip ${KINDS[found.outcome] || "warn"}` }, WORDS[found.outcome] || found.outcome), " ", found.because), flips];
}

function pause(row) {
  confirm({
    title: `Pause ${row.table}?`, text: "Compactor's initiator requests no compaction of this table, whatever its partitions need, until somebody resumes it. Queued and manual requests go on. The pause is kept in Compactor's own state: the table's properties do not change, so Hive's own initiator, if it runs, goes on too.",
    button: "Pause the table", path: "pause", body: () => ({ table: row.table }), done: shell.refresh,
  });
}

function resume(row) {
  confirm({
    title: `Resume ${row.table}?`, text: "The initiator considers the table again at its next pass. Rows about failures since each partition's last success are removed from the history too.",
    button: "Resume the table", path: "resume", body: () => ({ table: row.table }), done: shell.refresh,
  });
}

function consider(row) {
  confirm({
    title: `Consider ${row.table} again?`, text: "The rows about failures since each partition's last success are removed from the history, so that the initiator considers the table again.",
    button: "Consider again", path: "resume", body: () => ({ table: row.table }), done: shell.refresh,
  });
}
