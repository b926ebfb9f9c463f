/** The transactions that block the cleaner, and how much they block. */

import { read } from "./api.js";
import { confirm } from "./dialogs.js";
import { fill, h, table } from "./dom.js";
import { bytes, count, counted, duration } from "./format.js";

let shell;

export async function show(given) {
  shell = given;
  const { rows } = await read("blocked");
  const held = rows.length ? Math.max(...rows.map((row) => row.bytes_waiting)) : 0;
  const text = rows.length
    ? `${count(rows.length)} open ${rows.length === 1 ? "transaction keeps" : "transactions keep"} the cleaner from removing up to ${bytes(held)}. Directories stay until every transaction that may still read them has ended.`
    : "Nothing blocks the cleaner.";
  fill(shell.place, h("p", { class: "lead" }, text), rows.length ? table({ caption: "Open transactions that the cleaner waits for, oldest first", rows, columns: columns(), empty: "" }) : null);
}

function columns() {
  return [
    { label: "Transaction", cell: (row) => String(row.txnid) },
    { label: "User", wrap: true, cell: (row) => row.user },
    { label: "Host", wrap: true, cell: (row) => row.host },
    { label: "Kind", wrap: true, cell: (row) => [row.type.replace("_", " "), row.agent ? h("span", { class: "partition" }, row.agent) : null] },
    { label: "Open for", align: "right", cell: (row) => duration(row.age_ms) },
    { label: "Holds", align: "right", help: "Bytes made obsolete by our compactions that this transaction may still read", cell: (row) => bytes(row.bytes_waiting) },
    { label: "Compactions", wide: true, cell: compactions },
    { label: "", cell: (row) => shell.overview.rights.abort
      ? h("button", { type: "button", class: "quiet", "aria-label": `Abort transaction ${row.txnid}`, onclick: () => abort(row) }, "Abort…") : null },
  ];
}

function compactions(row) {
  const names = row.compactions.slice(0, 3).map((one) => h("span", { class: "because" }, `${one.compaction} of ${one.table}`));
  return [`${count(row.compactions.length)}`, names, row.compactions.length > 3 ? h("span", { class: "because" }, `and ${count(row.compactions.length - 3)} more`) : null];
}

function abort(row) {
  confirm({
    title: `Abort transaction ${row.txnid}?`,
    text: "Its client gets an error, and no reader ever sees its writes. This cannot be undone.",
    facts: [["User", `${row.user} on ${row.host}`], ["Kind", row.type.replace("_", " ")], ["Open for", duration(row.age_ms)], ["Holds", `${counted(row.compactions.length, "compaction")}, ${bytes(row.bytes_waiting)}`]],
    button: "Abort the transaction", keep: "Let it go on", danger: true, path: `transactions/${row.txnid}/abort`, done: shell.refresh,
  });
}
