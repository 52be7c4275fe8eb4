// A job's server-sent events. EventSource could not send the key.

import { Problem, request } from "./api.js";

const LONGEST_PAUSE = 15_000;

/** Every event, once, as {kind, data}; {kind: "lost"} whenever the stream breaks, before it is
    taken up again after the last event that came. */
export async function* events(path, signal) {
  let last = "";
  for (let lost = 0; ; lost += 1) {
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      const { body } = await request(path, { headers, signal });
      for await (const event of read(body.getReader())) {
        lost = 0;
        last = event.id || last;
        yield event;
      }
    } catch (error) {
      const refused = error instanceof Problem && [401, 403, 404].includes(error.status);
      if (signal.aborted || refused) throw error;
    }
    yield { kind: "lost" };
    await pause(Math.min(1000 * 2 ** lost, LONGEST_PAUSE), signal);
  }
}

async function* read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** One block of lines; null if it is but a sign of life. */
function parse(block) {
  const fields = { id: "", event: "", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = line.match(/^(\w+): ?(.*)$/) ?? [];
    if (name in fields) fields[name] += value;
  }
  return fields.data ? { id: fields.id, kind: fields.event, data: JSON.parse(fields.data) } : null;
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => (clearTimeout(timer), reject(signal.reason));
    const timer = setTimeout(() => (signal.removeEventListener("abort", stop), resolve()), milliseconds);
    signal.addEventListener("abort", stop, { once: true });
  });
}
