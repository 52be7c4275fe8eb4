// Numbers, times and names of scores, for people.

const NUMBER = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const NO_SHARES = ["matthews", "pearson", "spearman", "mean_absolute_error"];

const unit = (value, word) => `${value}\u00a0${word}`; // with a space that no line breaks at
const signed = (text) => text.replace("-", "−");
const tenths = (value) => NUMBER.format(+value.toFixed(1));

export const count = (value) => NUMBER.format(value);
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
export const decimal = (value) => signed(NUMBER.format(+value.toPrecision(4)));
export const capital = (text) => text[0].toUpperCase() + text.slice(1);

export function large(value) {
  if (value >= 1e9) return unit(tenths(value / 1e9), "billion");
  return value >= 1e6 ? unit(tenths(value / 1e6), "million") : count(Math.round(value));
}

export function percent(share, places = 1) {
  const least = 10 ** -places;
  if (share > 0 && 100 * share < least / 2) return unit(`<${least}`, "%");
  return unit(signed((100 * share).toFixed(places)), "%");
}

export function size(bytes) {
  if (bytes >= 1e9) return unit(tenths(bytes / 1e9), "GB");
  if (bytes >= 1e6) return unit(tenths(bytes / 1e6), "MB");
  return bytes >= 1e4 ? unit(Math.floor(bytes / 1e3), "kB") : unit(count(bytes), "bytes");
}

export const day = (moment) => DAY.format(new Date(moment));
export const moment = (seconds) => MOMENT.format(new Date(1000 * seconds));

export function duration(seconds) {
  if (seconds < 90) return unit(Math.max(1, Math.round(seconds)), "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return unit(minutes, "min");
  return `${unit(Math.floor(minutes / 60), "h")} ${unit(minutes % 60, "min")}`;
}

/** A score as its metric is read: most are shares, some are correlations or distances. */
export const score = (metric, value) =>
  NO_SHARES.includes(metric) ? signed(value.toFixed(3)) : percent(value);

export const spelled = (metric) => metric.replaceAll("_", " ").replace("f1", "F1");

/** The scores that count: of rows that nothing saw before, where there are any. */
export const counting = ({ test, dev }) => (Object.keys(test).length ? ["test", test] : ["dev", dev]);

/** The score to show, its value and its words. */
export function scored(task) {
  const [split, scores] = counting(task);
  const value = scores[task.metric];
  if (value == null) return null;
  return { value, split, figure: score(task.metric, value), what: `${spelled(task.metric)} on ${split}` };
}
