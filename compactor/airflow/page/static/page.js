/** The page's shell: view, metastore, theme and refresh. */

import { metastore, read, view } from "./api.js";
import { askToCompact, complain, forget } from "./dialogs.js";
import { fill, h, keepingFocus } from "./dom.js";
import { counted, moment, useZone } from "./format.js";
import { followTheme } from "./theme.js";
import * as blocked from "./blocked.js";
import * as history from "./history.js";
import * as overviews from "./overview.js";
import * as queue from "./queue.js";
import * as settings from "./settings.js";
import * as tables from "./tables.js";

const VIEWS = { overview: ["Overview", overviews], tables: ["Tables", tables], queue: ["Queue", queue], blocked: ["Blocked", blocked], history: ["History", history], settings: ["Settings", settings] };
const EVERY = 15000; // ms between two refreshes of a visible page
const place = document.getElementById("view");
const [title, chosen] = VIEWS[view];
const shell = { overview: null, refresh, place, busy };

function showShell(overview) {
  useZone(overview.timezone);
  document.title = `${title} · Compactor`;
  const queued = Object.values(overview.queue).reduce((sum, n) => sum + n, 0);
  fill(document.getElementById("views"), Object.entries(VIEWS).map(([name, [label]]) =>
    h("a", { href: name, "aria-current": name === view ? "page" : null }, label,
      name === "queue" && queued ? h("span", { class: "badge", "aria-label": counted(queued, "entry", "entries") }, queued.toLocaleString("en")) : null)));
  const select = document.getElementById("metastore");
  select.parentElement.hidden = overview.metastores.length < 2;
  fill(select, overview.metastores.map((name) => h("option", { value: name, selected: name === metastore }, name)));
  const mode = document.getElementById("mode");
  mode.hidden = false;
  const others = Object.entries(overview.database_modes).filter(([, own]) => own !== overview.mode);
  mode.textContent = `mode ${overview.mode}${others.length ? `, other in ${others.length}` : ""}`;
  mode.title = [`compactor.mode, from ${overview.mode_source}`, ...others.map(([name, own]) => `${name}: ${own}`)].join("\n");
  document.getElementById("compact").hidden = !overview.rights.compact;
  document.getElementById("updated").textContent = `Updated ${moment(Date.now())}`;
}

async function refresh() {
  try {
    shell.overview = await read("overview");
    showShell(shell.overview);
    await keepingFocus(place, () => chosen.show(shell));
    const { doubt } = shell.overview;
    doubt.length ? complain(doubt.join(" ")) : forget();
  } catch (error) {
    complain(error);
    place.querySelector(".loading")?.remove();
  }
  place.dataset.ready = "true";
}

function busy() {
  return document.getElementById("dialog").open || document.hidden || place.contains(document.activeElement) && document.activeElement.matches("input, select");
}

function lookAgain() {
  if (!busy()) refresh();
}

followTheme();
document.getElementById("refresh").addEventListener("click", refresh);
document.getElementById("compact").addEventListener("click", () => askToCompact({ done: refresh }));
document.getElementById("metastore").addEventListener("change", (event) => location.assign(`../${encodeURIComponent(event.target.value)}/${view}`));
setInterval(lookAgain, EVERY);
refresh();
