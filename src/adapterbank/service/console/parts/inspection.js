// What a file holds: how it is read, which can be changed, and what would be learnt from it.

import { field, fold, h, list, more, name, note, options, problem, table, wide } from "../dom.js";
import { capital, count, counted, decimal } from "../format.js";
import { bars } from "./charts.js";

const BARS = 20;
const ROLES = { text_column: "Text", pair_column: "Second text", label_column: "Label" };
const KINDS = {
  classification: "one label a row",
  "multi-label": "any number of labels a row",
  regression: "a number a row",
};
const SPLITS = { train: "to learn from", dev: "to select by", test: "for the last score" };

/** `change` is given what the person wants to be read in another way. */
export const inspection = (found, change) => [
  found.columns.length > 0 && reading(found, change),
  found.error && problem(found.error),
  list("warnings", found.warnings),
  balance(found.labels),
  bad(found),
  found.preview.length > 0 && fold(`The first ${counted(found.preview.length, "row")}`, preview(found)),
  found.notes.length > 0 && fold("How it was read", list("notes", found.notes)),
];

/** In a word. */
export function summary({ rows, kind, labels, values }) {
  if (!kind) return "nothing can be learnt from it as it is.";
  const parts = Object.entries(rows).map(([split, many]) => `${counted(many, "row")} ${SPLITS[split]}`);
  const what = [KINDS[kind] ?? "questions with their answers"];
  if (values) what.push(`from ${decimal(values[0])} to ${decimal(values[2])}`);
  if (kind in KINDS && !values) what.push(counted(Object.keys(labels).length, "label"));
  return `${capital(what.join(", "))}: ${parts.join(", ")}.`;
}

function reading(found, change) {
  const columns = () => found.columns.map((each) => h("option", { value: each }, each));
  const selects = Object.entries(ROLES).map(([role, label]) => {
    const none = options({ "": role === "pair_column" ? "none" : "choose …" });
    const onchange = (event) => change(moved(found, role, event.target.value || null));
    return field(label, h("select", { id: role, value: found[role] ?? "", onchange }, none, columns()));
  });
  const kinds = options(found.kind ? KINDS : { "": "not known yet", ...KINDS });
  const onchange = (event) => change({ kind: event.target.value || null });
  const kind = h("select", { id: "kind", value: found.kind ?? "", onchange }, kinds);
  return h("div.controls", { role: "group", "aria-label": "Read as" }, selects, field("Kind", kind));
}

/** All columns as they stand, with one changed; the role that had it takes the one that is freed. */
function moved(found, role, column) {
  const roles = Object.keys(ROLES);
  const now = Object.fromEntries(roles.map((each) => [each, found[each]]));
  const other = column && roles.find((each) => each !== role && now[each] === column);
  if (other) now[other] = now[role];
  return { ...now, [role]: column };
}

function balance(labels) {
  const all = Object.entries(labels).sort((a, b) => b[1] - a[1]);
  const rows = all.slice(0, BARS).map(([label, many]) => [name(label), many / (all[0][1] || 1), count(many)]);
  return all.length > 0 && [h("h3", {}, "Rows to learn from, by label"), bars(rows), more(all.length - BARS)];
}

function bad({ problems, bad_rows: many }) {
  if (!many) return null;
  const rows = problems.map(({ row, message }) => [`Row ${count(row)}`, message]);
  return [
    h("h3", {}, `${counted(many, "row")} cannot be used`),
    note("Mend them and choose the file again, or leave them out, below."),
    wide("Problems by row", table("problems", [], rows)),
    more(many - rows.length),
  ];
}

function preview(found) {
  const head = found.columns.map((column) => {
    const role = Object.keys(ROLES).find((each) => found[each] === column);
    return [name(column), role && h("small", {}, ROLES[role].toLowerCase())];
  });
  const rows = found.preview.map((row) => found.columns.map((column) => h("div", {}, name(row[column], 300))));
  return wide("The first rows", table("preview", head, rows));
}
