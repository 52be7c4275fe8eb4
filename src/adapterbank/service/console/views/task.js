// A task: how good it is, where it errs, what it says, and its versions.

import { at, get, key, post, remove } from "../api.js";
import { actions, attempt, button, figures, h, heading, link, more, name, names, note } from "../dom.js";
import { say, section, show, table, tick, wide } from "../dom.js";
import { capital, count, counted, counting, day, percent, score, scored, size, spelled } from "../format.js";
import { asker } from "../parts/ask.js";
import { careful } from "../parts/careful.js";
import { bars } from "../parts/charts.js";
import { confusion } from "../parts/confusion.js";
import { download } from "../parts/download.js";

const NAMED = 8; // labels in the first sentence
const BARS = 30;
const DOES = {
  classification: (reads, labels) => `Gives ${reads} one of ${labels}`,
  "multi-label": (reads, labels) => `Gives ${reads} any number of ${labels}`,
  regression: (reads) => `Gives ${reads} a number`,
  span: () => "Finds the answer to a question in a text",
};

export async function task(signal, reference) {
  const paths = [at(reference), `${at(reference)}/versions`];
  const [found, { versions }] = await Promise.all(paths.map((path) => get(path, signal)));
  const page = h("div");
  show(
    page,
    header(found),
    section("Try it", asker(found, reference, signal)),
    section("Scores", scores(found)),
    found.confusion.length > 0 && section("Where it errs", confusion(found)),
    balance(found),
    section("Versions", history(found, versions)),
    section("Take it along, or out", ways(found, page)),
  );
  return page;
}

function header(found) {
  const { task, labels, kind, version, current } = found;
  const does = DOES[kind](found.pair ? "a pair of texts" : "a text", counted(labels.length, "label"));
  const few = labels.length > 0 && labels.length <= NAMED;
  const other = ["The version that answers as ", link(task, `#/task/${task}`), ` is ${current}.`];
  const best = scored(found);
  const rows = [
    best && [best.figure, best.what],
    found.data.rows.train && [count(found.data.rows.train), "rows to learn from"],
    [percent(found.parameters.percent_of_base / 100, 2), "own parameters, as a share of the base"],
    [size(found.bytes), "to keep"],
  ];
  return [
    heading(task, h("span", {}, `@${version}`)),
    h("p.lead", {}, does, few && [": ", h("strong", {}, names(labels))], "."),
    found.note && h("p", {}, name(found.note, 10_000)),
    note(`${capital(kind)} by ${method(found)} on `, name(found.base.name), `, published ${day(found.published)}.`),
    version !== current && h("p", {}, other),
    figures(rows.filter(Boolean)),
  ];
}

const method = ({ method: { name: used, top_k: layers }, adapter }) =>
  ({
    adapters: `adapters of size ${adapter?.size}`,
    "top-k": `the top ${counted(layers, "layer")}`,
    full: "the whole model",
    "layer-norm": "LayerNorms",
    head: "a head alone",
  })[used];

function scores(found) {
  const [split, mine] = counting(found);
  const columns = { "this task": mine, ...found.baselines };
  if (split === "test") columns["this task, on dev"] = found.dev;
  const rows = [...new Set([found.metric, ...Object.keys(mine)])].map((metric) => [
    [spelled(metric), metric === found.metric && h("small", {}, "selection went by it")],
    ...Object.values(columns).map((each) => (metric in each ? score(metric, each[metric]) : "–")),
  ]);
  const many = found.data.rows[split];
  const beside = Object.keys(found.baselines).length ? ", beside simpler methods on the same rows" : "";
  const seen = split === "dev" ? " Selection has seen these rows: expect somewhat less on new texts." : "";
  return [
    note(`On the ${many ? `${count(many)} ` : ""}rows of ${split}${beside}.${seen}`),
    wide("Scores", table("scores", ["", ...Object.keys(columns)], rows)),
  ];
}

function balance({ data }) {
  const sorted = Object.entries(data.balance).sort((a, b) => b[1] - a[1]);
  const rows = sorted.slice(0, BARS).map(([label, many]) => [name(label), many / (sorted[0][1] || 1), count(many)]);
  const says = note("Rows that it learnt from, by label.");
  return rows.length > 0 && section("Labels", says, bars(rows), more(sorted.length - BARS));
}

function history({ task, version: shown, current }, versions) {
  const rows = [...versions].reverse().map((each) => {
    const { version } = each;
    const best = each.damaged ? null : scored(each);
    const question = `Let version ${version} answer as ${task}, in place of ${current}?`;
    return [
      [
        version === shown ? version : link(version, `#/task/${task}@${version}`),
        h("small.narrow", {}, day(each.published)),
      ],
      day(each.published),
      best ? [best.figure, h("small", {}, best.what)] : "damaged",
      size(each.bytes),
      version === current ? "current" : careful("Roll back to this", question, "Roll back", () => put(task, version)),
    ];
  });
  return table("versions", ["version", "published", "score", "size", ""], rows);
}

async function put(task, version) {
  await post(`${at(task)}/rollback`, { version });
  say(`Version ${version} of ${task} is the current one now.`);
  const place = `#/task/${task}`;
  if (location.hash === place) dispatchEvent(new Event("hashchange"));
  location.hash = place;
}

function ways({ task, version, current }, page) {
  const place = h("div");
  const [path, file] = [at(`${task}@${version}`), `${task}-${version}`];
  const forever = tick("Delete its versions and uploads for good, too");
  const out = async () => {
    const purge = forever.querySelector("input").checked;
    await remove(`${at(task)}?purge=${purge}`);
    show(page, gone(task, current, purge));
    page.querySelector("h1").focus();
  };
  // A card has its style in it, which the console's rules would strip from a copy opened here.
  const card = key.get()
    ? download("Download the card", `${path}/card`, `${file}.html`, place)
    : h("a.button", { href: `${path}/card`, target: "_blank", rel: "noopener" }, "Open the card");
  return [
    actions(
      download("Download the package", `${path}/package`, `${file}.tar.gz`, place),
      card,
      careful("Remove the task", `Take ${task} out of the bank?`, "Remove it", out, forever),
    ),
    place,
  ];
}

function gone(task, version, purged) {
  const place = h("div");
  const back = button("Put it back", () => attempt(back, place, () => put(task, version)));
  return [
    heading(`${task} is out of the bank`),
    h("p", {}, purged ? "Its versions and uploads are deleted." : "Its versions are kept, so it can come back."),
    actions(link("To the bank", "#/", "a.button"), !purged && back),
    place,
  ];
}
