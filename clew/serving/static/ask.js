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
    const found = await reached(fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body, signal: ending.signal }));
    return path.startsWith("api/save/") && found.ok ? await found.blob() : await answer(found);
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
  let found;
  try {
    found = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw new Overtaken();
    throw new Refused(`the server gave no answer (${response.status})`);
  }
  if (response.ok) return found;
  if (found.superseded) throw new Overtaken();
  throw new Refused(found.error || `the server refused (${response.status})`);
}
