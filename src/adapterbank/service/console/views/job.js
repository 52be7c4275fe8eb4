// A job as it goes, and what came of it.

import { get, post } from "../api.js";
import { actions, h, heading, link, list, name, problem, section, show, table } from "../dom.js";
import { events } from "../events.js";
import { capital, count, counted, counting, duration, moment, score, scored, spelled } from "../format.js";
import { careful } from "../parts/careful.js";
import { curve } from "../parts/charts.js";
import { Run } from "../parts/run.js";

export async function job(signal, id) {
  const path = `v1/jobs/${encodeURIComponent(id)}`;
  const run = new Run(await get(path, signal));
  const page = pageOf(run, path);
  follow(run, page, path, signal);
  return page.node;
}

async function follow(run, page, path, signal) {
  try {
    for await (const event of events(`${path}/events`, signal)) {
      run.see(event);
      page.update();
      if (run.over) return;
    }
  } catch (error) {
    if (!signal.aborted) page.fail(error);
  }
}

function pageOf(run, path) {
  const { task } = run.job;
  const [status, details] = [h("p.lead", { role: "status" }), h("p.note")];
  const [outcome, place, rest] = [h("div"), h("div"), h("div")];
  const bar = h("progress", { max: 1, "aria-label": `Progress of ${task}` });
  const question = "End it? What it has learnt so far is lost.";
  const cancel = careful("Cancel the job", question, "End it", () => post(`${path}/cancel`));
  const curves = curvesOf();
  let due = false;

  function draw() {
    due = false;
    const said = run.lost ? "The connection broke; it is being made again." : run.stage;
    if (status.textContent !== said) status.textContent = said;
    bar.hidden = !run.plan || run.over;
    if (run.plan) bar.value = run.step / run.plan.steps;
    details.textContent = run.over ? ended(run.job) : progress(run);
    cancel.hidden = run.over;
    if (run.over) show(outcome, outcomeOf(run.job));
    curves.draw(run);
    show(rest, list("warnings", run.warnings), baselines(run), run.data && dataOf(run.data));
  }
  draw();
  const title = heading("Learning ", name(task));
  return {
    node: h("div", {}, title, status, bar, details, outcome, place, cancel, curves.node, rest),
    update() {
      if (!due) requestAnimationFrame(draw); // of many events at once
      due = true;
    },
    fail: (error) => show(place, problem(error)),
  };
}

function progress(run) {
  const { plan, epochs } = run;
  if (!plan) return `Sent ${moment(run.job.created)}.`;
  const epoch = Math.min(epochs.length + 1, plan.epochs);
  const parts = [`Step ${count(run.step)} of ${count(plan.steps)}`, `epoch ${count(epoch)} of ${count(plan.epochs)}`];
  if (run.learns) parts.push(`about ${duration(run.left)} left`);
  return parts.join(" · ");
}

const ended = (job) =>
  `Ended ${moment(job.ended)}${job.started ? `, after ${duration(job.ended - job.started)}` : ""}.`;

function outcomeOf({ state, task, result, error }) {
  if (state !== "done") return [error && problem(error), actions(link("Back to the file", "#/new", "a.button"))];
  const best = scored(result);
  return [
    h("p.verdict", {}, `${task}@${result.version}`, best && [": ", best.figure, h("small", {}, ` ${best.what}`)]),
    actions(link("Open the task", `#/task/${task}`, "a.button.main")),
  ];
}

function curvesOf() {
  const node = h("div.curves");
  const loss = curve("Loss");
  let dev = null;
  function draw({ plan, steps, epochs }) {
    if (plan && steps.length) {
      loss.draw(steps, { end: plan.steps, what: "steps", low: 0, high: roundUp(steps.map(([, each]) => each)) });
      if (!loss.node.parentNode) node.prepend(loss.node);
    }
    if (!epochs.length) return;
    const { metric } = plan;
    if (!dev) {
      dev = curve(`${capital(spelled(metric))} on dev`, { dots: true, write: (value) => score(metric, value) });
      node.append(dev.node);
    }
    const points = epochs.map((each) => [each.epoch, each.dev[metric]]);
    dev.draw(points, { end: epochs[0].epochs, what: "epochs", ...around(points.map(([, each]) => each)) });
  }
  return { node, draw };
}

function roundUp(values) {
  const high = Math.max(...values, 1e-6);
  const step = 10 ** Math.floor(Math.log10(high));
  return step * Math.ceil(high / step);
}

/** Values to draw a score between: the round one below it, and 1 where it can't pass that. */
function around(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > 1 ? { low: 0, high: roundUp(values) } : { low: Math.min(0.9, Math.floor(10 * low) / 10), high: 1 };
}

function baselines({ baselines: found, plan }) {
  const rows = found.map((each) => {
    const [split, scores] = counting(each);
    const what = h("small", {}, `${spelled(plan.metric)} on ${split}`);
    return [[each.name, h("small", {}, each.description)], [score(plan.metric, scores[plan.metric]), what]];
  });
  return rows.length > 0 && section("Simpler methods, on the same rows", table("simple", [], rows));
}

function dataOf({ kind, rows, classes, warnings }) {
  const parts = Object.entries(rows).map(([split, many]) => `${count(many)} ${split}`);
  const labels = Object.keys(classes).length;
  const what = labels ? `${capital(kind)}, ${counted(labels, "label")}` : capital(kind);
  return section("Data", h("p", {}, `${what}. Rows: ${parts.join(", ")}.`), list("warnings", warnings));
}
