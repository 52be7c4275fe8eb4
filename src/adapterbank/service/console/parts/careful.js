// A button that asks, in the page, before it acts.

import { attempt, button, h, show } from "../dom.js";

/** `choice` stands with the question: something to tick that belongs to it. */
export function careful(label, question, yes, work, choice = null) {
  const [node, place] = [h("span.careful"), h("div")];
  const first = button(label, () => {
    show(node, asked);
    no.focus(); // a second press of the same key does no harm
  });
  const act = button(yes, () => attempt(act, place, work), "button.main");
  const no = button("No", () => {
    show(node, first);
    first.focus();
  });
  const said = h("span", {}, question);
  const asked = h("span.question", { role: "group", "aria-label": question }, said, choice, act, no, place);
  asked.addEventListener("keydown", (event) => event.key === "Escape" && no.click());
  show(node, first);
  return node;
}
