/** Plots of our newest runs. Each has a sentence that sums it up; the table below has every number.
 * ``redraw`` draws them once all of them are laid out and have their width. */

import { fill, h } from "./dom.js";
import { bytes, count, duration, seconds } from "./format.js";
import { onTheme } from "./theme.js";

const drawn = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function redraw() {
  for (const { draw } of drawn.values()) draw();
}

onTheme(redraw);
let timer;
addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 150); });

const TIMES = [0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
  ...[1, 10, 100, 1000].flatMap((days) => [days * 86400, days * 172800, days * 432000])]; // of an axis of seconds
const DECIMAL = Array.from({ length: 18 }, (unused, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat(); // steps of an axis of bytes

function figure(place, key, title, sentence, series, text, labels = []) {
  let box = place.querySelector(`[data-plot=${key}]`);
  if (!box) {
    box = h("figure", { "data-plot": key }, h("figcaption", {}, h("strong", {}, title), h("span", { class: "muted" })), h("div", { class: "plot", "aria-hidden": "true" }));
    place.append(box);
  }
  box.querySelector(".muted").textContent = sentence;
  const draw = () => {
    const target = box.querySelector(".plot");
    drawn.get(key)?.plot?.destroy();
    fill(target);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const bars = window.uPlot.paths.bars({ size: [0.7, 28], align: 0 });
    const plot = new window.uPlot({
      width: Math.max(260, target.clientWidth), height: 190, cursor: { drag: { x: false, y: false } }, legend: { live: false },
      scales: { x: { time: false, range: (u, low, high) => [low - 0.7, high + 0.7] }, y: { range: (u, low, high) => [0, high * 1.1 || 1] } },
      series: [{ label: "Run" }, ...series.map(({ label, stroke, width }) => ({ label, fill: colour(stroke), stroke: colour(stroke), width: width ?? 0, paths: bars, points: { show: false } }))],
      axes: [{ ...axis, grid: { show: false }, values: (u, ticks) => labels.length ? ticks.map((at) => labels[at] ?? "") : [], size: labels.length ? 28 : 12 }, { ...axis, size: 72, ...(text === bytes ? { incrs: DECIMAL } : text === seconds ? { incrs: TIMES } : {}), values: (u, ticks) => ticks.map(text) }],
    }, [series[0].values.map((value, at) => at), ...series.map(({ values }) => values)], target);
    drawn.set(key, { draw, plot });
  };
  drawn.set(key, { draw, plot: drawn.get(key)?.plot });
}

export function drawBytes(place, runs) {
  const last = runs.slice(-60);
  if (!last.length) return fill(place);
  const copied = last.map((run) => run.bytes_copied ?? 0);
  const all = last.map((run) => run.bytes_after);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  return figure(place, "bytes", "Bytes written by run", `The last ${count(last.length)} runs wrote ${bytes(sum(all))}; ${bytes(sum(copied))} of that was copied without decoding.`,
    [{ label: "re-encoded", stroke: "--plot-2", values: all }, { label: "copied", stroke: "--plot-1", values: copied }], bytes);
}

export function drawOpenings(place, runs) {
  const last = runs.filter((run) => run.opening_before != null && run.opening_after != null).slice(-60);
  if (!last.length) return;
  const before = last.map((run) => run.opening_before);
  const after = last.map((run) => run.opening_after);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  figure(place, "openings", "Time to open, before and after", `The last ${count(last.length)} measured runs: ${seconds(sum(before))} became ${seconds(sum(after))}.`,
    [{ label: "before", stroke: "--plot-3", values: before }, { label: "after", stroke: "--plot-1", values: after }], seconds);
}

/** Fewer files to read and time spent, day by day, with their dates. */
export function drawDays(place, days) {
  if (!days.length) return fill(place);
  const dates = days.map((one) => new Date(one.day).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" }));
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const files = days.map((one) => one.fewer_files);
  const moved = days.map((one) => one.bytes_moved);
  const spent = days.map((one) => one.seconds);
  const since = `since ${dates[0]}`;
  figure(place, "days-files", "Fewer files to read, by day", `${count(sum(files))} files ${since} (days in UTC).`, [{ label: "files", stroke: "--plot-1", values: files }], count, dates);
  figure(place, "days-bytes", "Bytes moved by day", `${bytes(sum(moved))} ${since}.`, [{ label: "bytes", stroke: "--plot-2", values: moved }], bytes, dates);
  return figure(place, "days-seconds", "Time spent by day", `${duration(sum(spent) * 1000)} ${since}.`, [{ label: "time", stroke: "--plot-3", values: spent }], seconds, dates);
}

export function drawFiles(place, runs) {
  const last = runs.slice(-60);
  if (!last.length) return;
  const before = last.map((run) => run.files_before);
  const after = last.map((run) => run.files_after);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  figure(place, "files", "Files before and after", `The last ${count(last.length)} runs turned ${count(sum(before))} files into ${count(sum(after))}.`,
    [{ label: "before", stroke: "--plot-3", values: before }, { label: "after", stroke: "--plot-1", values: after }], count);
}
