// What tasks read, and what they answer.

import { at, post } from "../api.js";
import { actions, attempt, clean, field, h, more, name, names, problem, show } from "../dom.js";
import { decimal, percent } from "../format.js";
import { bars } from "./charts.js";

const BARS = 10;
const FIELDS = {
  text: { text: "Text" },
  pair: { text_a: "First text", text_b: "Second text" },
  span: { question: "Question", context: "Text with the answer" },
};
const drafts = new Map(); // what was typed for a task outlives its page

/** Whether a task reads a text, a pair of texts, or a question and a text. */
export const formOf = ({ kind, pair }) => (kind === "span" ? "span" : pair ? "pair" : "text");

/** Texts as a task of that form reads them; null if one is missing. */
export function inputOf(form, texts) {
  const names = Object.keys(FIELDS[form]);
  if (!names.every((_, i) => texts[i].trim())) return null;
  return form === "text" ? texts[0] : Object.fromEntries(names.map((each, i) => [each, texts[i]]));
}

/** A form to ask a task something. */
export function asker(task, reference, signal) {
  const form = formOf(task);
  const [answer, place] = [h("div.answer", { "aria-live": "polite" }), h("div")];
  const inputs = Object.keys(FIELDS[form]).map((id) => {
    const draft = `${task.task} ${id}`;
    const oninput = (event) => drafts.set(draft, event.target.value);
    return h("textarea", { rows: 3, required: true, value: drafts.get(draft) ?? "", oninput, onkeydown: sendOnEnter });
  });
  const send = h("button.main", {}, "Ask");
  const ask = async () => {
    const texts = inputs.map((each) => each.value);
    const { predictions } = await post(`${at(reference)}/predict`, { inputs: [inputOf(form, texts)] }, signal);
    show(answer, answerOf(predictions[0], texts[1]));
  };
  const onsubmit = (event) => {
    event.preventDefault();
    attempt(send, place, ask);
  };
  const labelled = Object.values(FIELDS[form]).map((label, i) => field(label, inputs[i]));
  return h("form", { onsubmit }, labelled, actions(send), place, answer);
}

/** Ctrl or Cmd and Enter send what is being written. */
export function sendOnEnter(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
}

/** A task's answer; `context` is the text that a span stands in. */
export function answerOf(found, context, most = BARS) {
  if (found.error) return problem(found.error);
  if (found.value != null) return h("p.verdict", {}, decimal(found.value));
  if (found.answer != null) return spanOf(found, context);
  const ranked = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]);
  const said = found.label != null ? name(found.label, 80) : names(found.labels);
  return [
    h("p.verdict", {}, found.labels?.length === 0 ? "none of its labels" : said),
    bars(ranked.slice(0, most).map(([label, chance]) => [name(label), chance, percent(chance)])),
    more(ranked.length - most),
  ];
}

function spanOf({ answer, start, end, score }, context) {
  if (!answer) return h("p.verdict", {}, "no answer in this text ", h("small", {}, percent(score)));
  const letters = [...context]; // places count whole characters
  const piece = (from, to) => clean(letters.slice(from, to).join(""));
  return [
    h("p.verdict", {}, name(answer, 200), " ", h("small", {}, percent(score))),
    h("blockquote", {}, piece(0, start), h("mark", {}, piece(start, end)), piece(end)),
  ];
}
