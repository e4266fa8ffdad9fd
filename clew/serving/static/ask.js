// Requests to the server. A newer request for the same place on the page ends the older one, in the browser and on the server.

const client = Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(36)).join("");
const running = new Map();
let asked = 0;

export class Refused extends Error {}
export class Overtaken extends Error {}

export async function get(path) {
  return answer(await reached(fetch(path)));
}

export async function post(path, place, fields) {
  running.get(place)?.abort();
  const ending = new AbortController();
  running.set(place, ending);
  try {
    const body = JSON.stringify({ client, place, number: (asked += 1), ...fields });
    const response = await reached(fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body, signal: ending.signal }));
    return path.startsWith("api/save/") && response.ok ? await response.blob() : await answer(response);
  } finally {
    if (running.get(place) === ending) running.delete(place);
  }
}

export function stop(place) {
  running.get(place)?.abort();
}

export function stopAll(except = () => false) {
  for (const [place, ending] of running) if (!except(place)) ending.abort();
}

async function reached(request) {
  try {
    return await request;
  } catch (error) {
    if (error.name === "AbortError") throw new Overtaken();
    throw new Refused("the server does not answer; is `clew inspect` still running?");
  }
}

async function answer(response) {
  let content;
  try {
    content = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw new Overtaken();
    throw new Refused(`the server gave no answer (${response.status})`);
  }
  if (response.ok) return content;
  if (content.superseded) throw new Overtaken();
  throw new Refused(content.error || `the server refused (${response.status})`);
}
