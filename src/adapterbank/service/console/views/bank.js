// The bank at a glance.

import { pages } from "../api.js";
import { actions, button, field, figures, h, heading, link, name, names, note, options } from "../dom.js";
import { problem, section, show, table } from "../dom.js";
import { count, counted, day, large, percent, scored, size } from "../format.js";
import { comparison } from "../parts/charts.js";

const ROWS = 50; // shown at once
const LABELS = 4;
const ORDERS = {
  name: ["Name", (a, b) => (a.task < b.task ? -1 : 1)],
  newest: ["Newest first", (a, b) => (a.published < b.published ? 1 : -1)],
  score: ["Best score first", (a, b) => worth(b) - worth(a)],
  parameters: ["Most parameters first", (a, b) => b.trained_parameters - a.trained_parameters],
  size: ["Largest first", (a, b) => b.bytes - a.bytes],
};
const wanted = { query: "", order: "name" }; // outlives the page

/** Scores of different metrics, to sort by: distances are the better the smaller. */
function worth(task) {
  const value = scored(task)?.value ?? -Infinity;
  return task.metric === "mean_absolute_error" ? -value : value;
}

export async function bank(signal) {
  const coming = pages(signal);
  const { base, tasks, damaged } = (await coming.next()).value;
  if (!tasks.length && !damaged.length) return empty(base);
  const totals = h("div");
  const listed = listOf(tasks);
  const update = () => {
    const message = `Packages that cannot be read: ${damaged.join(", ")}.`;
    const broken = damaged.length > 0 && problem({ message, hint: "Publish them again, or roll them back." });
    show(totals, tasks.length > 0 && summary(base, tasks), broken);
    listed.update();
  };
  update();
  follow(coming, tasks, damaged, update);
  return h("div", {}, heading("The bank"), totals, section("Tasks", listed.node));
}

/** The pages after the first come in while it is being read. */
async function follow(coming, tasks, damaged, update) {
  try {
    for await (const page of coming) {
      tasks.push(...page.tasks);
      damaged.push(...page.damaged);
      update();
    }
  } catch {
    // The page was left, or the service is gone: what is there stays.
  }
}

const empty = (base) =>
  h(
    "div",
    {},
    heading("The bank is empty"),
    h("p.lead", {}, "Bring a file of labelled texts: it becomes the first task on ", name(base.name), "."),
    actions(link("New task", "#/new", "a.button.main")),
    note("Or from the command line: ", h("code", {}, "adapterbank train support --train messages.csv")),
  );

function summary(base, tasks) {
  const sum = (of) => tasks.reduce((all, each) => all + of(each), 0);
  const own = sum((each) => each.trained_parameters);
  // The base's size follows from any task; the largest tells it most exactly.
  const largest = tasks.reduce((a, b) => (b.trained_parameters > a.trained_parameters ? b : a));
  const parameters = (100 * largest.trained_parameters) / largest.percent_of_base;
  const rows = [
    [count(tasks.length), tasks.length === 1 ? "task" : "tasks"],
    [percent(own / tasks.length / parameters), "of the base’s parameters a task, on average"],
    [size(sum((each) => each.bytes)), "kept for all of them"],
    [large(parameters), ["parameters of the base, ", name(base.name)]],
  ];
  return [figures(rows), comparison(parameters, own, tasks.length)];
}

function listOf(tasks) {
  let most = ROWS;
  const [rows, said] = [h("div"), h("p.note", { role: "status" })];
  const more = button("Show more", () => {
    most += 4 * ROWS;
    update();
  });
  const change = (what) => (event) => {
    wanted[what] = event.target.value;
    most = ROWS;
    update();
  };
  const search = h("input", { type: "search", value: wanted.query, oninput: change("query") });
  const labels = Object.fromEntries(Object.entries(ORDERS).map(([order, [label]]) => [order, label]));
  const order = h("select", { value: wanted.order, onchange: change("order") }, options(labels));

  function update() {
    const words = wanted.query.toLowerCase().split(/\s+/);
    const fits = ({ task, kind, labels }) => {
      const text = [task, kind, ...labels].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const found = tasks.filter(fits).sort(ORDERS[wanted.order][1]);
    const head = ["task", "kind", "score", "parameters", "size", "published"];
    show(rows, found.length > 0 && table("tasks", head, found.slice(0, most).map(row)));
    const all = counted(tasks.length, "task");
    said.textContent = found.length < tasks.length ? `${count(found.length)} of ${all}` : all;
    more.hidden = found.length <= most;
  }
  const controls = h("div.controls", {}, field("Search", search), field("Sort by", order));
  return { node: h("div", {}, controls, said, rows, actions(more)), update };
}

function row(task) {
  const found = scored(task);
  const rest = task.labels.length - LABELS;
  return [
    [
      link(task.task, `#/task/${task.task}`),
      h("span.quiet", {}, `@${task.version}`),
      h("small", {}, names(task.labels.slice(0, LABELS)), rest > 0 && ` and ${count(rest)} more`),
      h("small.narrow", {}, `${task.kind} · ${size(task.bytes)} · ${day(task.published)}`),
    ],
    task.kind,
    found && [found.figure, h("small", {}, found.what)],
    [count(task.trained_parameters), h("small", {}, `${percent(task.percent_of_base / 100, 2)} of the base`)],
    size(task.bytes),
    day(task.published),
  ];
}
