/** What a compaction would read, write and take, told in its dialog before anybody asks for it. */

import { settled } from "./address.js";
import { read } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, count, counted, duration } from "./format.js";

/** Returns the place of the estimate; it follows the fields, and selects the initiator's type until somebody chooses one. */
export function expected({ name, part, type, go }) {
  const place = h("div", { class: "estimate", "aria-live": "polite" });
  let chosen = false;
  let newest = 0;
  const look = async () => {
    const number = ++newest;
    if (!/^[^.\s]+\.[^.\s]+$/.test(name.value.trim())) return fill(place);
    fill(place, h("p", { class: "muted" }, "Estimating …"));
    try {
      const found = await read("plan", { table: name.value.trim(), partition: part.value.trim(), type: chosen ? type.value : "" });
      if (number !== newest) return;
      if (found.plan && !chosen) type.value = found.plan.type;
      fill(place, found.plan ? told(found.plan) : h("p", { class: "muted" }, `${counted(found.partitions, "request")}, one for each partition; name a partition for an estimate.`));
      if (go()) go().disabled = Boolean(found.plan?.noop);
    } catch (error) {
      if (number === newest) fill(place, h("p", { class: "muted" }, `No estimate: ${error.message}`));
    }
  };
  const soon = settled(look); // not when a field is left: the button about to be clicked would move away
  name.addEventListener("input", soon);
  part.addEventListener("input", soon);
  type.addEventListener("change", () => { chosen = true; look(); });
  look();
  return place;
}

function told(plan) {
  if (plan.nothing) return h("p", { class: plan.noop ? "notice warn" : "muted" }, plan.noop ? `Nothing to do: ${plan.nothing}. The request would be refused.` : `Nothing to merge: ${plan.nothing}. What is obsolete is left to the cleaner.`);
  const found = plan.expected;
  const facts = [["Reads", `${bytes(plan.input_bytes)} in ${counted(plan.files, "file")}`],
    ["Copied", `${bytes(plan.bytes_copied)}, ${bytes(plan.bytes_reencoded)} re-encoded`],
    ...found ? [["Writes", `about ${bytes(found.bytes_written)}`], ["Takes", `about ${duration(found.seconds * 1000)} (${duration(found.low * 1000)} to ${duration(found.high * 1000)}, by ${count(found.runs)} runs like it)`]] : [["Takes", "unknown: too few runs like it have ended"]],
    ...found?.core_seconds != null ? [["Cores", `${duration(found.core_seconds * 1000)} of processor time`]] : []];
  return h("dl", { class: "facts" }, facts.map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)]));
}
