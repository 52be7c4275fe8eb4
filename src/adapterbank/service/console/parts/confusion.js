// Which labels a task takes for which: a picture where they are few, pairs in any case.

import { fold, h, name, s, short, table, wide } from "../dom.js";
import { count, counting, percent } from "../format.js";

const MOST = 20; // labels of a picture
const PAIRS = 10;
const LONGEST = 16; // characters of a label in it
const CHARACTER = 7.6; // pixels, about
const SLOPE = 40; // degrees, of the labels above the columns
const HALF = 0.5; // of a row: from there on the writing is light on dark

export function confusion(task) {
  const [split] = counting(task);
  const wrong = task.confusion.filter((each) => each.label !== each.predicted);
  const worst = wrong.sort((a, b) => b.rows - a.rows).slice(0, PAIRS);
  const rows = worst.map((each) => [name(each.label), name(each.predicted), count(each.rows)]);
  const pairs = table("pairs", ["true", "predicted", `rows of ${split}`], rows);
  return [
    task.labels.length <= MOST && pictured(task, split),
    rows.length > 0 && fold("The labels most often confused", pairs),
  ];
}

function pictured({ labels, confusion: found }, split) {
  const rows = labels.map(() => labels.map(() => 0));
  for (const each of found) rows[labels.indexOf(each.label)][labels.indexOf(each.predicted)] = each.rows;
  const all = rows.flat().reduce((sum, each) => sum + each, 0);
  const right = rows.reduce((sum, row, i) => sum + row[i], 0);
  const grid = gridOf(labels);
  const svg = s(
    "svg.confusion",
    {
      viewBox: `0 0 ${grid.width} ${grid.height}`,
      width: grid.width,
      role: "img",
      "aria-label": `Confusion matrix: ${count(right)} of ${count(all)} rows have the right label.`,
    },
    rows.map((row, i) => row.map((_, j) => cell(labels, row, i, j, grid))),
    labels.map((each, i) => write(each, grid.left - 8, grid.y(i + 0.5) + 4, "end")),
    labels.map((each, i) => write(each, grid.x(i + 0.5), grid.top - 8, "start", SLOPE)),
    write("predicted", grid.x(labels.length / 2), grid.height - 8),
    write("true", 14, grid.y(labels.length / 2), "middle", 90),
  );
  svg.style.minWidth = `${Math.round(0.8 * grid.width)}px`; // where there is less room, it scrolls
  const says = `Rows of ${split} by true and predicted label: the fuller, the larger the share of the true label’s.`;
  return h("figure", {}, wide("Confusion matrix", svg), h("figcaption", {}, says));
}

function gridOf(labels) {
  const many = labels.length;
  const [across, down] = many <= 6 ? [64, 38] : many <= 10 ? [44, 34] : [28, 26];
  const lengths = labels.map((each) => CHARACTER * [...short(each, LONGEST)].length);
  const turn = (SLOPE * Math.PI) / 180;
  const left = 36 + Math.round(Math.max(...lengths));
  const top = 28 + Math.round(Math.max(...lengths) * Math.sin(turn));
  const ends = lengths.map((length, i) => (i + 0.5) * across + length * Math.cos(turn));
  return {
    left,
    top,
    across,
    down,
    width: Math.round(left + Math.max(many * across, ...ends) + 6),
    height: top + many * down + 26,
    x: (column) => left + column * across,
    y: (row) => top + row * down,
  };
}

function cell(labels, row, i, j, grid) {
  const place = { x: grid.x(j) + 1, y: grid.y(i) + 1, width: grid.across - 2, height: grid.down - 2, rx: 3 };
  const share = row[j] && row[j] / row.reduce((sum, each) => sum + each);
  if (!share) return s("rect", { ...place, "fill-opacity": 0.04 });
  // The middle of the scale is left out: neither dark nor light writing can be read on it.
  const shade = share >= HALF ? 0.64 + 0.36 * share : 0.08 + 0.8 * share;
  const middle = { x: grid.x(j + 0.5), y: grid.y(i + 0.5) + 4, "text-anchor": "middle" };
  return s(
    "g",
    {},
    s("title", {}, `true: ${labels[i]}\npredicted: ${labels[j]}\nrows: ${count(row[j])} (${percent(share)})`),
    s("rect.hue", { ...place, "fill-opacity": shade.toFixed(2) }),
    s(share >= HALF ? "text.full" : "text", middle, row[j] < 10_000 ? row[j] : `${Math.floor(row[j] / 1000)}k`),
  );
}

const write = (text, x, y, anchor = "middle", turn = 0) =>
  s("text", { x, y, "text-anchor": anchor, transform: turn > 0 && `rotate(-${turn} ${x} ${y})` }, short(text, LONGEST));
