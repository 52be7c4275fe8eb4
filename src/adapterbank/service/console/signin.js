// Asks for the key, over the page: what stands there stays.

import { key } from "./api.js";
import { actions, button, field, h, note } from "./dom.js";

let asking = null;

/** Resolves when a key was given; throws the problem if none was. Many may ask at once. */
export function signIn(problem) {
  asking ??= ask(problem).finally(() => (asking = null));
  return asking;
}

function ask(problem) {
  const input = h("input", {
    type: "password",
    required: true,
    pattern: "\\s*ab_[\\w\\-]+\\s*",
    title: "A key starts with ab_",
    autocomplete: "off",
  });
  const form = h(
    "form",
    {},
    h("h2", { id: "sign-in" }, "Sign in"),
    h("p", { role: key.get() && "alert" }, problem.message),
    field("Key", input, "Kept in this tab alone, until it is closed or you forget the key."),
    note("Whoever runs the service makes one: ", h("code", {}, "adapterbank keys create"), "."),
    actions(h("button.main", {}, "Sign in"), button("Not now", () => dialog.close())),
  );
  const dialog = h("dialog", { "aria-labelledby": "sign-in" }, form);
  document.body.append(dialog);
  return new Promise((given, refused) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      key.set(input.value.trim());
      given();
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      refused(problem);
    });
    dialog.showModal();
  });
}
