// Nodes made by hand: no data is ever read as markup.

import { count } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
// What cannot be shown, and marks that turn the direction of what stands after them.
const UNFIT = /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** h("p.note", {…}, …): an element with its classes, its attributes and what is in it. */
export const h = (kind, ...rest) => made((tag) => document.createElement(tag), kind, ...rest);
export const s = (kind, ...rest) => made((tag) => document.createElementNS(SVG, tag), kind, ...rest);

function made(create, kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const node = create(tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  show(node, children);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value; // after the options of a select are there
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  return node;
}

/** Put these into a node, in place of what was there; what is empty is left out. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((each) => each || each === 0));
}

/** The same, and the focus stays with what has the same id as before. */
export function redraw(node, ...children) {
  const { id } = document.activeElement;
  show(node, children);
  if (id) document.getElementById(id)?.focus();
}

/** The page's heading: it takes the focus when the page opens. */
export const heading = (...children) => h("h1", { tabindex: -1 }, children);
export const section = (title, ...children) => h("section", {}, h("h2", {}, title), children);
export const fold = (title, ...children) => h("details", {}, h("summary", {}, title), children);
export const note = (...children) => h("p.note", {}, children);
export const actions = (...children) => h("p.actions", {}, children);
export const more = (number) => number > 0 && note(`… and ${count(number)} more.`);
export const list = (kind, items) => items.length > 0 && h(`ul.${kind}`, {}, items.map((each) => h("li", {}, each)));
export const link = (label, href, kind = "a") => h(kind, { href }, label);
export const button = (label, onclick, kind = "button") => h(kind, { type: "button", onclick }, label);

/** Numbers to be seen first, each with what it counts. */
export const figures = (rows) =>
  h("dl.figures", {}, rows.map(([figure, what]) => h("div", {}, h("dt", {}, what), h("dd", {}, figure))));

/** A table; the first cell of a row names it. */
export function table(kind, head, rows) {
  const top = h("thead", {}, h("tr", {}, head.map((each) => h("th", { scope: "col" }, each))));
  const line = ([first, ...rest]) =>
    h("tr", {}, h("th", { scope: "row" }, first), rest.map((each) => h("td", {}, each)));
  return h(`table.${kind}`, {}, head.length > 0 && top, h("tbody", {}, rows.map(line)));
}

/** Wide things scroll by themselves, with the keyboard too. */
export const wide = (says, node) => h("div.wide", { tabindex: 0, role: "region", "aria-label": says }, node);

export const clean = (text) => String(text).replace(UNFIT, "\ufffd");

export function short(text, longest = 40) {
  const letters = [...clean(text)];
  return letters.length > longest ? `${letters.slice(0, longest - 1).join("").trimEnd()}…` : letters.join("");
}

/** A name of someone's: apart from the words around it, and whole on hovering. */
export function name(text, longest = 40) {
  const [whole, shown] = [clean(text), short(text, longest)];
  return h("bdi", { title: shown !== whole && whole }, shown);
}

export const names = (texts) => texts.flatMap((each, i) => (i ? [", ", name(each)] : [name(each)]));

/** What went wrong, and what to do next. */
export const problem = ({ message, hint }) =>
  h("div.problem", { role: "alert" }, h("p", {}, h("strong", {}, message)), hint && h("p", {}, hint));

let fields = 0;

/** A field with its label, and a word on it. */
export function field(label, input, about = "") {
  const id = (input.id ||= `field-${(fields += 1)}`);
  if (about) input.setAttribute("aria-describedby", `${id}-about`);
  const word = about && h("small", { id: `${id}-about` }, about);
  return h("div.field", {}, h("label", { for: id }, label), input, word);
}

export const options = (labels) => Object.entries(labels).map(([value, label]) => h("option", { value }, label));

export const tick = (label, attributes) =>
  h("label.tick", {}, h("input", { type: "checkbox", ...attributes }), h("span", {}, label));

const said = document.getElementById("said");

/** Say something that is shown, and read out, on the page that opens next. */
export function say(text) {
  said.textContent = text;
  said.dataset.fresh = "yes";
}

export function unsay() {
  if (!said.dataset.fresh) said.textContent = "";
  delete said.dataset.fresh;
}

/** Do something at a button's word, once at a time; what goes wrong is said in `place`. */
export async function attempt(button, place, work) {
  if (button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true"); // not disabled: it would lose the focus
  show(place);
  try {
    await work();
  } catch (error) {
    if (error.name !== "AbortError") show(place, problem(error));
  } finally {
    button.removeAttribute("aria-busy");
  }
}
