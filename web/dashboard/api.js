// Talking to the program: the state, and commands. Both need the key, which
// comes behind the "#" of the address and is kept for this tab alone.

const KEPT = "ferrule-key";
let key = take();

function take() {
  const found = new URLSearchParams(location.hash.slice(1)).get("key");
  if (found) {
    sessionStorage.setItem(KEPT, found);
    // So that it is not in a screenshot, a bookmark or the history.
    history.replaceState(null, "", location.pathname);
  }
  return found ?? sessionStorage.getItem(KEPT) ?? "";
}

export function useKey(text) {
  // A whole address may have been pasted.
  key = text.trim().replace(/^.*#key=/, "");
  sessionStorage.setItem(KEPT, key);
}

/** The program said no: with the reason. */
export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const response = await fetch(path, {
    ...options,
    headers: { ...options.headers, authorization: `Bearer ${key}` },
    cache: "no-store",
    credentials: "omit",
    signal: AbortSignal.timeout(5000),
  });
  const body = await response.json();
  if (!response.ok) throw new Refused(response.status, body.refused ?? response.statusText);
  return body;
}

export const state = () => ask("/api/state");

/** Gives a command; the answer is the state afterwards. */
export const command = (body) =>
  ask("/api/command", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
