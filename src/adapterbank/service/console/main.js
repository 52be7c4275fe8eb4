// From the address to a page.

import { key, onUnauthorized } from "./api.js";
import { actions, button, h, heading, link, problem, unsay } from "./dom.js";
import { signIn } from "./signin.js";
import { bank } from "./views/bank.js";
import { job } from "./views/job.js";
import { jobs } from "./views/jobs.js";
import { newTask } from "./views/new.js";
import { task } from "./views/task.js";
import { tryOut } from "./views/try.js";

// A view is given a signal that ends with it and what stands in the address; it gives a node.
const VIEWS = [
  [/^$/, bank],
  [/^task\/([^/]+)$/, task],
  [/^new$/, newTask],
  [/^job\/([^/]+)$/, job],
  [/^jobs$/, jobs],
  [/^try$/, tryOut],
];
const main = document.getElementById("main");
const forget = document.getElementById("forget");
let leaving = new AbortController();
let last = null;

async function open() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const place = location.hash.replace(/^#\/?/, "");
  unsay();
  main.setAttribute("aria-busy", "true");
  const page = await pageAt(place, signal);
  if (signal.aborted) return;
  main.replaceChildren(page);
  main.removeAttribute("aria-busy");
  tell(place);
  if (last !== null) main.querySelector("h1").focus({ preventScroll: true });
  if (last !== null && last !== place) scrollTo(0, 0);
  last = place;
}

async function pageAt(place, signal) {
  try {
    const [pattern, view] = VIEWS.find(([each]) => each.test(place)) ?? [];
    if (!view) return failed({ message: "There is no such page." });
    return await view(signal, ...place.match(pattern).slice(1).map(decodeURIComponent));
  } catch (error) {
    return failed(error);
  }
}

function failed(error) {
  const ways = actions(button("Try again", open), link("To the bank", "#/"));
  return h("div", {}, heading("That did not work"), problem(error), ways);
}

/** Where we are, and whether with a key. */
function tell(place) {
  const title = main.querySelector("h1").textContent;
  document.title = place ? `${title} · AdapterBank` : "AdapterBank";
  forget.hidden = !key.get();
  for (const each of document.querySelectorAll("nav a")) {
    each.ariaCurrent = each.hash === `#/${place}` ? "page" : null;
  }
}

onUnauthorized(signIn);
addEventListener("hashchange", open);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address is none of ours
  main.focus();
});
forget.addEventListener("click", () => {
  key.forget();
  location.reload(); // and everything that was seen with it
});
open();
