/** Formats values for people. */

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export function bytes(value) {
  if (value == null) return "–";
  let size = Number(value);
  let unit = 0;
  while (size >= (unit ? 999.95 : 1000) && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit ? (Math.floor(size * 10 + 0.5) / 10).toFixed(1) : size} ${UNITS[unit]}`;
}

export function count(value) {
  return value == null ? "–" : Number(value).toLocaleString("en");
}

/** A number with its noun: ``1 file``, ``2 files``. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${Number(value) === 1 ? one : many}`;
}

export function percent(value) {
  if (value == null) return "–";
  const part = value * 100;
  return part && part < 1 ? "< 1 %" : `${Math.round(part)} %`;
}

/** Formats a duration in its largest unit. */
export function duration(ms) {
  if (ms == null) return "–";
  const steps = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  for (const [unit, size] of steps) {
    if (ms >= size) {
      const found = ms / size;
      return `${found < 10 && unit !== "s" ? found.toFixed(1).replace(/\.0$/, "") : Math.round(found)} ${unit}`;
    }
  }
  return ms > 0 ? "< 1 s" : "0 s";
}

/** The zone that people have chosen in Airflow, which this page shares an origin with; else that of Airflow's configuration. */
let zone = chosenZone() || "UTC";

function chosenZone() {
  try {
    return JSON.parse(localStorage.getItem("timezone"));
  } catch {
    return null; // not set, not JSON, or no storage
  }
}

export function useZone(configured) {
  zone = [chosenZone(), configured, Intl.DateTimeFormat().resolvedOptions().timeZone, "UTC"].find(isZone);
}

function isZone(name) {
  try {
    return Boolean(name && new Intl.DateTimeFormat("en", { timeZone: name }));
  } catch {
    return false;
  }
}

/** A time of day with its zone beside it. */
export function moment(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms); // no time, and anybody may write the queue
  return at.toLocaleString("sv-SE", { timeZone: zone, timeZoneName: "short" });
}

/** A sentence of the server with its times, which are in UTC, in the zone of the page. */
export function withMoments(text) {
  return text?.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (time) => moment(Date.parse(time)));
}

/** Formats seconds in short form; a minute and more like any duration. */
export function seconds(value) {
  if (value == null) return "–";
  if (!value || value >= 59.95) return duration(value * 1000);
  return value < 0.995 ? `${Number((value * 1000).toPrecision(2))} ms` : `${value.toFixed(1)} s`;
}
