// The state of the page in the address, after #: links restore it, and back and forward step through it.

export const SHARED = ["text", "target", "into", "off"];
const RESERVED = ["view", "run", "beside"];

export function read() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const options = {};
  for (const [name, value] of parameters) if (!RESERVED.includes(name)) options[name] = parse(name, value);
  return { view: parameters.get("view") || "", run: parameters.get("run") || "", beside: parameters.get("beside") || "", options };
}

export function write(state, { push }) {
  const hash = "#" + spelled(state);
  if (hash === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", location.pathname + hash);
}

function spelled(state) {
  const fields = new URLSearchParams();
  for (const name of RESERVED) if (state[name]) fields.set(name, state[name]);
  for (const [name, value] of Object.entries(state.options)) {
    if (value === undefined || value === null || value === "" || (Array.isArray(value) && !value.length)) continue;
    fields.set(name, typeof value === "string" ? plain(name, value) : JSON.stringify(value));
  }
  return fields.toString();
}

// A text that would be parsed as another value, such as 12 or [a], is written as JSON; the view's main texts never are.
const plain = (name, value) => (TEXTS.includes(name) || typeof parse(name, value) === "string" ? value : JSON.stringify(value));
const TEXTS = ["text", "target", "into"];

function parse(name, value) {
  if (TEXTS.includes(name)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

// Remove the token of the printed address, which is used up, so that copied addresses do not contain it.
export function dropToken() {
  if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);
}
