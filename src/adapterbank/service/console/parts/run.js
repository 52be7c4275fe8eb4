// What is known of a job, as its events tell it.

export const OVER = ["done", "failed", "cancelled"];
const ENOUGH = 5_000; // milliseconds of steps seen as they happened, to judge the pace by
const STAGES = {
  queued: "It waits for its turn.",
  done: "It is done.",
  failed: "It failed.",
  cancelled: "It was cancelled.",
};

export class Run {
  data = null;
  plan = null;
  steps = []; // [step, loss]
  epochs = [];
  baselines = [];
  warnings = [];
  lost = false;
  #live = false;
  #seen = []; // the first and the last [time, step] that came as they happened

  constructor(job) {
    this.job = job;
  }

  get over() {
    return OVER.includes(this.job.state);
  }

  get step() {
    return this.steps.at(-1)?.[0] ?? 0;
  }

  see({ kind, data }) {
    this.lost = kind === "lost";
    if (this.lost) {
      this.#live = false;
      this.#seen = [];
    } else if (kind === "job") {
      this.job = data;
      this.#live = true; // what is older has come before the first word on its state
    } else if (data.event === "step") this.#walk(data);
    else if (data.event === "epoch") this.epochs = [...this.epochs.slice(0, data.epoch - 1), data];
    else if (data.event === "baseline") this.baselines.push(data);
    else if (data.event === "warned") this.warnings.push(data.message);
    else if (data.event === "data") this.data = data;
    else if (data.event === "plan") Object.assign(this, { plan: data, baselines: [], warnings: [] });
  }

  /** A run that was taken up again repeats steps: the later ones count. */
  #walk({ step, loss }) {
    if (step <= this.step) this.#seen = [];
    while (this.step >= step) this.steps.pop();
    this.steps.push([step, loss]);
    const now = [performance.now(), step];
    if (this.#live) this.#seen = [this.#seen[0] ?? now, now];
  }

  /** Seconds until all steps are done: by the pace that was seen, else as planned. */
  get left() {
    const rest = this.plan.steps - this.step;
    const [[begun, from] = [], [now, to] = []] = this.#seen;
    if (now - begun > ENOUGH) return (rest * (now - begun)) / (to - from) / 1000;
    return (this.plan.seconds * rest) / this.plan.steps;
  }

  get learns() {
    return this.plan && this.step < this.plan.steps && !this.baselines.length;
  }

  get stage() {
    if (this.job.state in STAGES) return STAGES[this.job.state];
    if (this.learns) return "It learns.";
    if (this.plan) return "It is scored, beside simpler methods.";
    return this.data ? "The rows are read; the pace is being measured." : "It starts.";
  }
}
