// How a task is to be learnt: a few settings, folded away. What is left empty is found.

import { field, fold, h, options } from "../dom.js";

export const ROWS = { type: "file", accept: ".csv,.tsv,.jsonl,.ndjson,.parquet,.json" };
const METHODS = {
  "": "adapters",
  head: "a head alone",
  "layer-norm": "LayerNorms",
  "top-k": "the top layer",
  full: "the whole model",
};
const number = (attributes) => h("input", { type: "number", min: 1, ...attributes });

export function settings() {
  const inputs = {
    method: h("select", {}, options(METHODS)),
    size: number({ max: 2048, placeholder: "32" }),
    epochs: number({ max: 1000, placeholder: "found" }),
    minutes: number({ min: 0.1, max: 10080, step: "any", placeholder: "no limit" }),
    note: h("textarea", { rows: 2, maxlength: 2000 }),
  };
  const files = { dev: h("input", ROWS), test: h("input", ROWS) };
  const node = fold(
    "Settings",
    h(
      "div.controls",
      {},
      field("Method", inputs.method, "what is trained"),
      field("Size", inputs.size, "width of the adapters"),
      field("Epochs", inputs.epochs, "passes over the rows"),
      field("Minutes", inputs.minutes, "to fit the run into"),
    ),
    field("Note", inputs.note, "kept with the task and shown on its card"),
    field("Rows to select by", files.dev, "a file of its own, else cut from the one above"),
    field("Rows for the last score", files.test, "a file of its own, else cut from the one above"),
  );
  return {
    node,
    files: () => ({ dev: files.dev.files[0], test: files.test.files[0] }),
    values() {
      const given = (input) => input.valueAsNumber || null;
      const [method, note] = [inputs.method.value || null, inputs.note.value.trim()];
      const size = method ? null : given(inputs.size); // of adapters alone
      return { method, size, epochs: given(inputs.epochs), minutes: given(inputs.minutes), note };
    },
  };
}
