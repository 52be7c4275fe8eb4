// Small charts: the shapes are SVG, the words around them HTML, which stays readable at any width.

import { h, s, show, table } from "../dom.js";
import { count, counted, decimal, large } from "../format.js";

const BLOCKS = 60; // more models than these are one bar
const STRETCHED = { viewBox: "0 0 100 100", preserveAspectRatio: "none" };

const picture = (kind, shapes) => s(`svg.${kind}`, { ...STRETCHED, "aria-hidden": "true" }, shapes);
const block = (kind, x, width) => s(`rect.${kind}`, { x, width, height: 100 });

/** Rows of [name, share of the whole width, words]; the words say what the bars show. */
export const bars = (rows) =>
  table("bars", [], rows.map(([name, share, words]) => [name, picture("bar", block("hue", 0, 100 * share)), words]));

/** What a bank holds beside what one whole model for each of its tasks would. */
export function comparison(base, own, many) {
  const width = (parameters) => Math.max(0.3, (100 * parameters) / Math.max(base * many, base + own));
  const line = (title, parameters, shapes) => {
    const times = h("span.quiet", {}, `${count(+(parameters / base).toFixed(2))} × the base`);
    return [h("p", {}, title, h("strong", {}, large(parameters)), times), picture("compared", shapes)];
  };
  const models = [];
  const step = many > BLOCKS ? many : 1;
  for (let i = 0; i < many; i += step) models.push(block("base", i * width(base), width(step * base)));
  const bank = [block("base", 0, width(base)), block("hue", width(base), width(own))];
  const added = `what ${counted(many, "task")} ${many === 1 ? "adds" : "add"}`;
  return h(
    "figure.comparison",
    {},
    line("This bank", base + own, bank),
    line("One model per task", base * many, models),
    h("figcaption", {}, "Parameters: ", h("span.key.base", {}, "the base"), ", ", h("span.key.hue", {}, added), "."),
  );
}

/** A curve that can be drawn again as it grows. `write` puts a value into words. */
export function curve(title, { dots = false, write = decimal } = {}) {
  const [line, marks] = [s("path.line"), s("path.dots")];
  const grid = s("path.grid", { d: "M0 0H100M0 50H100M0 100H100" });
  const svg = s("svg", { ...STRETCHED, role: "img" }, grid, line, marks);
  const unsaid = { "aria-hidden": "true" };
  const [now, values, places] = [h("span"), h("div.values", unsaid), h("div.places", unsaid)];
  const caption = h("figcaption", {}, h("strong", {}, title), " ", now);
  const node = h("figure.curve", {}, caption, h("div.plot", {}, values, svg, places));

  /** Points [x, y] up to `end` of `what`, between the values `low` and `high`. */
  function draw(points, { end, what, low, high }) {
    const on = (part, whole) => ((100 * part) / (whole || 1)).toFixed(2);
    const put = ([x, y]) => `${on(x, end)} ${on(high - y, high - low)}`;
    line.setAttribute("d", `M${points.map(put).join("L")}`);
    // A line of no length has round ends: a dot that stays round however the picture is stretched.
    if (dots) marks.setAttribute("d", points.map((each) => `M${put(each)}h0`).join(""));
    const [first, latest] = [points[0], points.at(-1)].map(([, value]) => write(value));
    show(now, latest);
    show(values, [high, (high + low) / 2, low].map((each) => h("span", {}, write(each))));
    show(places, h("span", {}, "0"), h("span", {}, `${decimal(end)} ${what}`));
    const done = `${decimal(points.at(-1)[0])} of ${decimal(end)} ${what}`;
    svg.setAttribute("aria-label", `${title} after ${done}: ${first} at first, ${latest} now.`);
  }
  return { node, draw };
}
