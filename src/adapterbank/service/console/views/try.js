// One text through several tasks at once, and which task it is for.

import { pages, post } from "../api.js";
import { actions, attempt, button, field, fold, h, heading, link, note, problem, section, show, tick } from "../dom.js";
import { count, percent } from "../format.js";
import { answerOf, formOf, inputOf, sendOnEnter } from "../parts/ask.js";
import { bars } from "../parts/charts.js";

const LISTED = 40; // tasks to tick
const MOST = 50; // asked at once
const FEW = 6; // so many tasks are all ticked from the start
const BARS = 4;
let kept = null; // the page outlives a look at another one

export async function tryOut(signal) {
  const tasks = [];
  for await (const page of pages(signal)) tasks.push(...page.tasks);
  kept ??= build(tasks);
  kept.update(tasks);
  return kept.node;
}

function build(tasks) {
  const [place, found] = [h("div"), h("div", { "aria-live": "polite" })];
  const first = h("textarea", { rows: 3, required: true, onkeydown: sendOnEnter });
  const second = h("textarea", { rows: 3, onkeydown: sendOnEnter });
  const choice = picker(tasks.length <= FEW ? tasks : []);
  const ask = h("button.main", {}, "Ask the chosen tasks");
  const which = h("button", {}, "Which task is it for?");
  const onsubmit = (event) => {
    event.preventDefault();
    const pressed = event.submitter ?? ask;
    const texts = [first.value, second.value];
    const answer = () => (pressed === which ? route(texts) : askAll(choice.chosen(), texts));
    attempt(pressed, place, async () => show(found, await answer()));
  };
  const form = h(
    "form",
    { onsubmit },
    field("Text", first, "of a task that answers questions: the question"),
    fold("A second text", field("Second text", second, "for tasks that read two; of a question: its context")),
    choice.node,
    actions(ask, which),
  );
  const lead = h("p.lead", {}, "One text through several tasks at once.");
  return { node: h("div", {}, heading("Try"), lead, form, place, found), update: choice.update };
}

function picker(start) {
  const chosen = new Set(start.map((each) => each.task));
  let tasks = [];
  const [boxes, said] = [h("div.ticks"), h("span.note", { role: "status" })];
  const search = h("input", { type: "search", oninput: draw });

  function onchange({ target: { value, checked } }) {
    if (checked) chosen.add(value);
    else chosen.delete(value);
    tell();
  }
  function tell() {
    said.textContent = `${count(chosen.size)} of ${count(tasks.length)} tasks chosen.`;
  }
  function draw() {
    const fits = tasks.filter(({ task }) => task.includes(search.value.trim().toLowerCase()));
    const rest = fits.length - LISTED;
    const box = ({ task }) => tick(task, { value: task, checked: chosen.has(task), onchange });
    show(boxes, fits.slice(0, LISTED).map(box), rest > 0 && note(`${count(rest)} more: search for them.`));
    tell();
  }
  function update(now) {
    tasks = now;
    find.hidden = tasks.length <= FEW;
    for (const each of chosen) if (!tasks.some(({ task }) => task === each)) chosen.delete(each);
    draw();
  }
  const none = () => {
    chosen.clear();
    draw();
  };
  const clear = button("Choose none", none, "button.quiet");
  const find = field("Search", search);
  const node = h("fieldset", {}, h("legend", {}, "Tasks"), find, boxes, actions(said, clear));
  return { node, update, chosen: () => tasks.filter(({ task }) => chosen.has(task)) };
}

async function askAll(tasks, texts) {
  if (!tasks.length) return problem({ message: "No task is chosen.", hint: "Tick one at least." });
  if (tasks.length > MOST) return problem({ message: "Too many tasks are chosen.", hint: `Tick ${MOST} at most.` });
  const inputs = tasks.map((each) => ({ task: each.task, input: inputOf(formOf(each), texts) }));
  const asked = inputs.filter((each) => each.input);
  const { predictions } = asked.length ? await post("v1/predict", { inputs: asked }) : {};
  const answers = inputs.map((each) => {
    const i = asked.indexOf(each);
    const answer = i < 0 ? note("It reads two texts: write the second one.") : answerOf(predictions[i], texts[1], BARS);
    return h("section", {}, h("h3", {}, link(each.task, `#/task/${each.task}`)), answer);
  });
  return section("What they say", h("div.answers", {}, answers));
}

async function route(texts) {
  const input = texts[1].trim() ? inputOf("pair", texts) : texts[0];
  const [found] = (await post("v1/route", { inputs: [input], most: 5 })).routes;
  if (found.error) return problem(found.error);
  const rows = found.map(({ task, probability }) => [link(task, `#/task/${task}`), probability, percent(probability)]);
  return section("Which task it is for", rows.length ? bars(rows) : h("p", {}, "None: it is like no task’s texts."));
}
