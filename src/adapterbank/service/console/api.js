// The service's API. Paths are relative, so that the console works below any address.

const KEY = "adapterbank.key";
const PAGE = 500; // tasks a request

/** What the service says went wrong, and what to do next. */
export class Problem extends Error {
  constructor({ message, hint = "", code = "" }, status = 0) {
    super(message);
    Object.assign(this, { hint, code, status });
  }
}

/** The key is kept for this tab alone, and goes into headers, never into addresses. */
export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

let askForKey = async (problem) => {
  throw problem;
};

/** `ask` gets a key from the person, or throws. */
export function onUnauthorized(ask) {
  askForKey = ask;
}

/** The answer, if it is a good one. A request without a known key waits for one, so that nothing
    that was typed is lost. */
export async function request(path, { headers = {}, ...options } = {}) {
  for (;;) {
    const used = key.get();
    const all = used ? { ...headers, Authorization: `Bearer ${used}` } : headers;
    const response = await reach(path, { ...options, headers: all });
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401) throw problem;
    if (used === key.get()) await askForKey(problem);
  }
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const hint = "See whether it runs, and whether the file that is sent is still as it was.";
    throw new Problem({ message: "The service cannot be reached.", hint });
  }
}

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  const message = `The service answered ${response.status}.`;
  return new Problem(said.error ?? { message }, response.status);
}

export const get = async (path, signal) => (await request(path, { signal })).json();

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", body: JSON.stringify(body ?? {}), headers, signal };
  return (await request(path, options)).json();
}

export const remove = async (path) => (await request(path, { method: "DELETE" })).json();

/** Send files with options. */
export async function upload(path, files, options, signal) {
  const body = new FormData();
  for (const [name, file] of Object.entries(files)) if (file) body.append(name, file, file.name);
  body.append("options", JSON.stringify(options));
  return (await request(path, { method: "POST", body, signal })).json();
}

export const at = (task) => `v1/tasks/${encodeURIComponent(task)}`;

/** The bank's tasks, page by page. */
export async function* pages(signal) {
  for (let after = ""; after !== null; ) {
    const page = await get(`v1/tasks?limit=${PAGE}&after=${encodeURIComponent(after)}`, signal);
    yield page;
    after = page.next;
  }
}
