// From a file of labelled texts to a job.

import { at, pages, Problem, upload } from "../api.js";
import { actions, attempt, field, h, heading, note, problem, redraw, section, show, tick } from "../dom.js";
import { counted, size } from "../format.js";
import { inspection, summary } from "../parts/inspection.js";
import { ROWS, settings } from "../parts/settings.js";

const NAME = {
  required: true,
  pattern: "(?!.*\\.\\.)[a-z0-9][a-z0-9._\\-]{0,63}",
  title: "1 to 64 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit",
  autocapitalize: "none",
  spellcheck: "false",
};
const ENCODINGS = ["utf-8", "utf-16", "windows-1252", "iso-8859-1", "shift_jis", "gb18030"];
const known = new Set(); // names of tasks
let kept = null; // the page outlives a look at another one

export async function newTask(signal) {
  kept ??= build();
  learnNames(signal);
  return kept;
}

function build() {
  const state = { file: null, found: null, wanted: {} };
  let looking = new AbortController();
  const [status, wrong, sight] = [h("p", { role: "status" }), h("div"), h("div")];
  const onchange = () => look({ encoding: codes.value });
  const codes = h("select", { onchange }, ENCODINGS.map((each) => h("option", {}, each)));
  const encoding = field("Encoding", codes);
  const order = orderForm(state);
  const [holds, task] = [section("What it holds", sight), section("The task", order.node)];
  const hide = (hidden) => [holds, task].forEach((each) => (each.hidden = hidden));

  function choose(file) {
    if (!file) return;
    Object.assign(state, { file, found: null, wanted: {} });
    codes.value = ENCODINGS[0];
    encoding.hidden = /\.(json|parquet)$/i.test(file.name);
    hide(true);
    order.suggest(file.name);
    look({});
  }

  async function look(change) {
    Object.assign(state.wanted, change);
    looking.abort();
    const { signal } = (looking = new AbortController());
    status.textContent = `Reading ${state.file.name}, ${size(state.file.size)} …`;
    show(wrong);
    try {
      state.found = await upload("v1/inspect", { file: state.file }, state.wanted, signal);
      hide(false);
      redraw(sight, inspection({ ...state.found, ...(state.found.error && state.wanted) }, look));
      status.textContent = `${state.file.name}: ${summary(state.found)}`;
      order.update();
    } catch (error) {
      if (signal.aborted) return; // another look has begun
      task.hidden = true;
      status.textContent = state.file.name;
      show(wrong, problem(error));
    }
  }

  encoding.classList.add("slim");
  encoding.hidden = true;
  hide(true);
  const lead = "A file of labelled texts becomes a task. It is looked at first: nothing is learnt before you say so.";
  const top = [heading("New task"), h("p.lead", {}, lead), dropZone(choose)];
  return h("div", {}, top, status, encoding, wrong, holds, task);
}

function dropZone(choose) {
  const onchange = () => {
    const [file] = input.files;
    input.value = ""; // so that the same file can be chosen again once it is mended
    choose(file);
  };
  const over = (is) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", is);
    if (event.type === "drop") choose(event.dataTransfer.files[0]);
  };
  const input = h("input", { ...ROWS, onchange });
  const zone = h(
    "label.drop",
    { ondragover: over(true), ondragleave: over(false), ondrop: over(false) },
    input,
    h("strong", {}, "Choose a file"),
    h("span", {}, "or drop it here: csv, tsv, jsonl, parquet, or SQuAD’s json"),
  );
  return zone;
}

function orderForm(state) {
  let typed = false;
  const [place, about] = [h("div"), h("small", { role: "status" })];
  const oninput = () => {
    typed = true;
    update();
  };
  const title = h("input", { ...NAME, oninput });
  const more = settings();
  const skip = tick("");
  const start = h("button.main", {}, "Start");

  function update() {
    const there = known.has(title.value);
    about.textContent = there ? `${title.value} is in the bank: this becomes its next version.` : "";
    const many = state.found?.bad_rows;
    show(skip.lastChild, many ? `Leave the ${counted(many, "bad row")} out` : "Leave bad rows out");
  }
  async function send() {
    const { file, found, wanted } = state;
    const skip_bad = skip.firstChild.checked;
    if (found.error) throw new Problem(found.error);
    if (found.bad_rows && !skip_bad) {
      const hint = "Leave them out, or mend them and choose the file again.";
      throw new Problem({ message: `${counted(found.bad_rows, "row")} cannot be used.`, hint });
    }
    const options = { ...wanted, ...more.values(), skip_bad };
    const job = await upload(`${at(title.value)}/train`, { file, ...more.files() }, options);
    location.hash = `#/job/${job.id}`;
  }
  const onsubmit = (event) => {
    event.preventDefault();
    attempt(start, place, send);
  };
  const end = [actions(start), note("The rows that you send are deleted when the job has ended."), place];
  return {
    node: h("form", { onsubmit }, field("Name", title), about, skip, more.node, end),
    update,
    suggest: (file) => typed || (title.value = suggested(file)),
  };
}

/** A task's name from a file's. */
function suggested(file) {
  const plain = file.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-");
  return plain.replace(/\.+/g, ".").replace(/^[._-]+|[._-]+$/g, "").slice(0, 64);
}

async function learnNames(signal) {
  try {
    for await (const { tasks } of pages(signal)) for (const { task } of tasks) known.add(task);
  } catch {
    // Only a word beside the name depends on it.
  }
}
