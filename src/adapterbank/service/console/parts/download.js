// A file of the service. A link can't carry a key: with one, the file is fetched and then saved.

import { key, request } from "../api.js";
import { attempt, button, h } from "../dom.js";

export function download(label, path, name, place) {
  if (!key.get()) return h("a.button", { href: path, download: name }, label);
  const saver = button(label, () => attempt(saver, place, () => save(path, name)));
  return saver;
}

async function save(path, name) {
  const href = URL.createObjectURL(await (await request(path)).blob());
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
