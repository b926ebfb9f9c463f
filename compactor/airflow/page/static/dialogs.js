/** Confirmation dialogs inside the page: the frame that Airflow puts it in allows no dialogs of the browser. */

import { act } from "./api.js";
import { fill, h } from "./dom.js";
import { expected } from "./estimate.js";

const dialog = document.getElementById("dialog");
let leave;

export function say(text) {
  fill(document.getElementById("alert"));
  fill(document.getElementById("status"), text ? h("p", { class: "notice good" }, text) : null);
  clearTimeout(leave);
  leave = setTimeout(() => fill(document.getElementById("status")), 12000);
}

export function complain(error) {
  fill(document.getElementById("alert"), h("p", { class: "notice bad" }, error.message || String(error),
    h("button", { type: "button", class: "quiet", "aria-label": "Close this message", onclick: () => fill(document.getElementById("alert")) }, "×")));
}

export function forget() {
  fill(document.getElementById("alert"));
}

export function open(title, content, { wide = false } = {}) {
  dialog.className = wide ? "wide" : "";
  const close = h("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: () => dialog.close() }, "×");
  fill(dialog, h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title), close), content);
  if (!dialog.open) dialog.showModal();
}

/** Asks for confirmation, acts and shows the result; stays open with the reason if the action was refused. */
export function confirm({ title, text, facts = [], fields = [], button, keep = "Cancel", danger = false, path, body = () => ({}), done }) {
  const problem = h("p", { role: "alert", class: "problem" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, button);
  const submit = async (event) => {
    event.preventDefault();
    go.disabled = true;
    fill(problem);
    try {
      const said = await act(typeof path === "function" ? path() : path, body());
      dialog.close();
      say(said.message);
      if (done) await done();
    } catch (error) {
      fill(problem, error.message);
    } finally {
      go.disabled = false;
    }
  };
  open(title, h("form", { method: "dialog", onsubmit: submit }, text ? h("p", {}, text) : null,
    facts.length ? h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : null,
    fields, problem,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, keep), go)));
}

/** The form of ALTER TABLE ... COMPACT. */
export function askToCompact({ table = "", partition = "", done }) {
  const name = h("input", { name: "table", value: table, required: true, placeholder: "database.table", autocomplete: "off" });
  const part = h("input", { name: "partition", value: partition || "", placeholder: "every partition", autocomplete: "off" });
  const type = h("select", { name: "type" },
    [["major", "Major: a new base"], ["minor", "Minor: merge deltas"], ["rebalance", "Rebalance: even out the buckets"]].map(([value, label]) => h("option", { value }, label)));
  const pool = h("input", { name: "pool", placeholder: "the table's own", autocomplete: "off" });
  const estimate = expected({ name, part, type, go: () => dialog.querySelector("button[type=submit]") });
  const more = h("textarea", { name: "properties", rows: "3", placeholder: "compactor.hive.compactor.job.queue=etl", "aria-describedby": "properties-help" });
  const field = (label, input, help) => h("label", { class: "field" }, h("span", {}, label), input, help ? h("small", { id: "properties-help" }, help) : null);
  const properties = () => Object.fromEntries(more.value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
  confirm({
    title: "Compact a table",
    text: "Queues a request. Thresholds do not apply; readers are not affected.",
    fields: [field("Table", name), field("Partition", part), field("Type", type), field("Pool", pool),
      field("Properties", more, "Overrides for this request, KEY=VALUE, one per line."), estimate],
    button: "Queue the compaction",
    path: "compact",
    body: () => ({ table: name.value, partition: part.value || null, type: type.value, pool: pool.value || null, properties: properties() }),
    done,
  });
}
