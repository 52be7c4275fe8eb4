// The jobs, the newest first.

import { get } from "../api.js";
import { actions, h, heading, link, name, redraw, table } from "../dom.js";
import { duration, moment, scored } from "../format.js";
import { OVER } from "../parts/run.js";

const PAUSE = 3_000; // milliseconds between two looks, while something goes on

export async function jobs(signal) {
  const listed = h("div");
  let last = "";
  async function look() {
    const found = (await get("v1/jobs", signal)).jobs;
    const text = JSON.stringify(found);
    if (text !== last) redraw(listed, found.length ? tableOf(found) : none());
    last = text;
    if (!found.every((each) => OVER.includes(each.state))) later();
  }
  const later = () => setTimeout(() => signal.aborted || look().catch(later), PAUSE);
  await look();
  return h("div", {}, heading("Jobs"), listed);
}

const none = () => [
  h("p.lead", {}, "Nothing has been learnt here yet."),
  actions(link("New task", "#/new", "a.button.main")),
];

function tableOf(found) {
  const rows = found.map((each) => [
    h("a", { href: `#/job/${each.id}`, id: `job-${each.id}` }, name(each.task)),
    [each.state, h("small", {}, noteOn(each))],
    moment(each.created),
    each.started && each.ended ? duration(each.ended - each.started) : "–",
  ]);
  return table("jobs", ["task", "state", "sent", "took"], rows);
}

function noteOn({ state, result, error }) {
  if (state === "failed") return error.message;
  const best = state === "done" && scored(result);
  return best && `${best.figure} ${best.what}`;
}
