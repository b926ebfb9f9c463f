/** Creates elements without markup in strings: a table's name is always treated as text. */

import { moment } from "./format.js";

export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "selected") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(9)) {
    if (child != null && child !== false) element.append(child);
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(9).filter((child) => child != null && child !== false));
}

/** A table with a caption for screen readers. Columns: {label, align, sort, help, wide, wrap, cell(row)}; one without a label
 * has the buttons. Roles are explicit, since a narrow window lays rows out as blocks, which then are no table to a reader. */
export function table({ caption, columns, rows, empty, order, descending, onSort }) {
  const head = columns.map((column) => {
    const sorted = column.sort && order === column.sort;
    const attributes = { scope: "col", role: "columnheader", class: kind(column), title: column.help };
    if (column.sort) attributes["aria-sort"] = sorted ? (descending ? "descending" : "ascending") : "none";
    const label = column.label || h("span", { class: "hidden" }, column.hidden || "Actions");
    if (!column.sort) return h("th", attributes, label);
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (descending ? "▼" : "▲") : "↕");
    const sort = () => onSort(column.sort, sorted ? !descending : Boolean(column.largest), column.label);
    return h("th", attributes, h("button", { type: "button", class: "sort", "data-sort": column.sort, onclick: sort }, label, arrow));
  });
  const body = rows.map((row) =>
    h("tr", { role: "row" }, columns.map((column, number) =>
      h(number ? "td" : "th", { scope: number ? null : "row", role: number ? "cell" : "rowheader", class: kind(column), "data-label": column.label || null }, column.cell(row)))));
  const none = h("tr", { role: "row" }, h("td", { role: "cell", colspan: columns.length, class: "empty" }, empty));
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { role: "table" }, h("caption", { class: "hidden" }, caption), h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
      h("tbody", { role: "rowgroup" }, body.length ? body : none)));
}

function kind(column) {
  return column.align === "right" ? "number" : column.wide ? "wide" : column.wrap ? "wrap" : column.label ? null : "actions";
}

/** Previous and next buttons for a list that the server pages. */
export function pager({ offset, limit, total, onMove }) {
  const last = Math.min(offset + limit, total);
  const text = total ? `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${total.toLocaleString("en")}` : "none";
  const move = (label, to, off) => h("button", { type: "button", class: "quiet", disabled: off, onclick: () => onMove(to) }, label);
  return h("nav", { class: "pager", "aria-label": "Pages" }, h("span", { class: "muted" }, text),
    move("Previous", Math.max(0, offset - limit), offset === 0), move("Next", offset + limit, last >= total));
}

export function ago(ms, now, text) {
  if (ms == null) return h("span", { class: "muted" }, "never");
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return h("span", { class: "muted" }, String(ms)); // no time, and anybody may write the queue
  return h("time", { datetime: at.toISOString(), title: moment(ms) }, `${text(Math.max(0, now - ms))} ago`);
}

/** ``db.table`` with its partition below. */
export function entity(name, partition) {
  return [h("span", { class: "name" }, name), partition == null ? null : h("span", { class: "partition" }, partition)];
}

/** A link out of the frame that Airflow puts us in, in which only elements of Airflow's own page may open a window. */
export function external(href, text) {
  const go = (event) => {
    if (parent === window) return;
    event.preventDefault();
    const outside = parent.document.createElement("a");
    Object.assign(outside, { href, target: "_blank", rel: "noreferrer" });
    outside.click();
  };
  return h("a", { href, target: "_blank", rel: "noreferrer", onclick: go }, text);
}

function known(element) {
  return element.dataset.sort || element.getAttribute("aria-label") || element.textContent;
}

/** Redraws ``place`` and restores the focus to the same button afterwards. */
export async function keepingFocus(place, work) {
  const before = document.activeElement;
  const was = before && before !== place && place.contains(before) ? [before.tagName, known(before)] : null;
  await work();
  if (!was || place.contains(document.activeElement) && document.activeElement !== place) return;
  [...place.querySelectorAll(was[0])].find((element) => known(element) === was[1])?.focus();
}

/** A bar filled to a percentage. */
export function bar(percent, kind, label, role) {
  const filled = h("span", { class: `filled ${kind}` });
  filled.style.width = `${percent}%`;
  return h("span", { class: "bar", role, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(percent), "aria-label": label }, filled);
}
