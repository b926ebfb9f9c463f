/** The settings: values in force and their sources. */

import { read } from "./api.js";
import { keep, kept, settled } from "./address.js";
import { complain, confirm } from "./dialogs.js";
import { fill, h, table } from "./dom.js";
import { moment } from "./format.js";

const DEFAULTS = { table: "", find: "", changed: true };
const NUMBER = /^-?[\d.]+$/; // a value with a suffix, such as 300s, has its unit
const state = kept(DEFAULTS);
let filter;
let list;
let shell;
let found;

export async function show(given) {
  shell = given;
  if (!filter) {
    const of = h("input", { type: "search", value: state.table, placeholder: "database.table, empty: the metastore", "aria-label": "Table", oninput: settled((event) => change({ table: event.target.value.trim() }, true), 500) });
    const search = h("input", { type: "search", value: state.find, placeholder: "Part of a key or its effect", "aria-label": "Find settings", oninput: settled((event) => change({ find: event.target.value })) });
    const changed = h("input", { type: "checkbox", checked: state.changed, onchange: (event) => change({ changed: event.target.checked }) });
    filter = h("div", { class: "filter" }, of, search, h("label", { class: "check" }, changed, "Only what is not the default"));
    list = h("div", {});
  }
  await load();
}

async function change(changes, reload = false) {
  Object.assign(state, changes);
  keep(state, DEFAULTS);
  if (reload) await load().catch(complain);
  else draw();
}

async function load() {
  if (!shell.place.contains(filter)) fill(shell.place, filter, list);
  found = await read("settings", { table: state.table });
  draw();
}

function draw() {
  const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = found.rows.filter((row) => (!state.changed || row.source !== "default") && words.every((word) => `${row.key} ${row.effect}`.toLowerCase().includes(word)));
  const of = state.table || `metastore ${shell.overview.metastore}`;
  const spark = Object.entries(found.spark_conf);
  fill(list, table({
    caption: `Settings of ${of}`, rows, empty: state.changed ? "Everything that matches has its default." : "No setting matches.",
    columns: [
      { label: "Setting", wrap: true, cell: (row) => h("code", {}, row.key) },
      { label: "Value", wrap: true, cell: (row) => [h("code", {}, row.value || "(empty)"), NUMBER.test(row.value) && row.unit !== "text" ? h("span", { class: "partition" }, row.unit) : null] },
      { label: "From", wrap: true, cell: (row) => [h("span", { class: `chip ${row.source === "default" ? "plain" : "busy"}` }, row.source), author(row)] },
      { label: "Effect", wide: true, cell: (row) => row.effect },
      ...(state.table && shell.overview.rights.compact ? [{ label: "", cell: actions }] : []),
    ],
  }), spark.length ? [h("h2", {}, "Spark"), h("dl", { class: "facts" }, spark.map(([key, value]) => [h("dt", {}, h("code", {}, key)), h("dd", {}, value)]))] : null,
  found.ignored.length ? [h("h2", {}, "Properties and values without effect"), h("ul", {}, found.ignored.map(({ property, reason }) => h("li", {}, h("code", {}, property), `: ${reason}`)))] : null);
}

/** The author of an override. */
function author(row) {
  const one = row.source === "override" ? found.overrides.find(({ key }) => key === row.key) : null;
  return one ? h("span", { class: "partition" }, `by ${one.by}, ${moment(one.at)}`) : null;
}

function actions(row) {
  if (found.overrides.some(({ key }) => key === row.key)) {
    return h("button", { type: "button", class: "quiet", "aria-label": `Remove the override of ${row.key}`, onclick: () => remove(row) }, "Remove…");
  }
  if (!found.of_tables.includes(row.key)) return null;
  return h("button", { type: "button", class: "quiet", "aria-label": `Override ${row.key}`, onclick: () => override(row) }, "Override…");
}

function override(row) {
  const value = h("input", { name: "value", value: row.value, autocomplete: "off", required: true });
  confirm({
    title: `Override ${row.key} for ${state.table}?`, text: `${row.effect} The value is kept in Compactor's own state and takes precedence over the properties of the table and the database, which do not change. Hive does not see it.`,
    facts: [["Now", `${row.value || "(empty)"}, from ${row.source}`]], fields: [h("label", { class: "field" }, h("span", {}, "Value"), value)],
    button: "Override", path: "override", body: () => ({ table: state.table, key: row.key, value: value.value }), done: load,
  });
}

function remove(row) {
  confirm({
    title: `Remove the override of ${row.key} for ${state.table}?`, text: "The properties of the table and its database, or else the metastore's configuration, apply again.",
    facts: [["Now", row.value]], button: "Remove the override", path: "override", body: () => ({ table: state.table, key: row.key }), done: load,
  });
}
