// A panel: an instrument's picture of a run, with title, state and download links. It stays while a newer one is computed.

import { Overtaken, post, stop } from "./ask.js";
import { element, hear, picture } from "./elements.js";
import { enliven } from "./view.js";

const PATIENCE = 250; // milliseconds before a message says that work is in progress

const MOST_KEPT = 30;
const kept = new Map();

function remember(question, answer) {
  kept.set(question, answer);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

// Request the pictures of panels side by side; the server draws them on one scale in one answer. `columns` has the request of each panel. With
// `keep` the answer is cached, because it takes long to compute.
export async function show(panels, name, columns, { keep = false } = {}) {
  const [first, ...beside] = columns;
  const fields = beside.length ? { ...first, beside } : first;
  const question = JSON.stringify([name, fields]);
  const numbers = panels.map((panel) => ++panel.asked);
  const current = () => panels.filter((panel, place) => panel.asked === numbers[place]);
  const draw = (answer) => panels.forEach((panel, place) => {
    if (panel.asked !== numbers[place]) return;
    const own = answer.views ? answer.views[place] : answer;
    const others = columns.filter((_, number) => number !== place);
    if (own.error) panel.refuse(own.error);
    else panel.draw(name, others.length ? { ...columns[place], beside: others } : columns[place], { ...own, seconds: answer.seconds });
  });
  if (keep && kept.has(question)) return draw(kept.get(question));
  const began = performance.now();
  const ticking = setTimeout(() => current().forEach((panel) => panel.wait(began, panel.asked, panels[0].place)), PATIENCE);
  try {
    const answer = await post(`api/look/${encodeURIComponent(name)}`, panels[0].place, fields);
    if (keep) remember(question, answer);
    draw(answer);
  } catch (error) {
    if (error instanceof Overtaken) current().forEach((panel) => panel.state.replaceChildren());
    else current().forEach((panel) => panel.refuse(error.message));
  } finally {
    clearTimeout(ticking);
    current().forEach((panel) => panel.root.classList.remove("waiting"));
  }
}

export class Panel {
  constructor(place, { heading, prefix = "", open, drawn = () => {} }) {
    this.place = place;
    this.prefix = prefix;
    this.drawn = drawn;
    this.title = element("h2", {}, heading || "");
    this.about = element("p", { class: "about" });
    this.state = element("p", { class: "state", role: "status" });
    this.body = element("div", { class: "drawn" });
    this.keep = element("div", { class: "keep" });
    const head = element("div", { class: "head" }, this.title, open ? element("button", { type: "button", class: "link", onclick: open }, "open") : null);
    this.root = element("section", { class: "panel", "aria-label": heading || "view" }, head, this.about, this.state, this.body, this.keep);
    this.asked = 0;
  }

  wait(began, number, place) {
    if (number !== this.asked) return;
    this.root.classList.add("waiting");
    const seconds = Math.floor((performance.now() - began) / 1000);
    const clock = element("span", {}, seconds ? ` ${seconds} s` : "");
    this.state.replaceChildren("looking", clock, " ", element("button", { type: "button", class: "link", onclick: () => this.end(place) }, "stop"));
    const tick = setInterval(() => {
      if (number !== this.asked || !this.root.classList.contains("waiting")) return clearInterval(tick);
      clock.textContent = ` ${Math.floor((performance.now() - began) / 1000)} s`;
    }, 1000);
  }

  end(place) {
    this.asked += 1;
    stop(place);
    this.root.classList.remove("waiting");
    this.state.replaceChildren("stopped");
  }

  draw(name, fields, answer) {
    this.title.textContent = this.prefix ? `${this.prefix}: ${answer.title}` : answer.title;
    this.about.textContent = answer.about;
    this.state.replaceChildren();
    this.root.classList.remove("refused");
    this.body.replaceChildren(picture(answer.html));
    enliven(this.body);
    const seconds = answer.seconds < 1 ? `${Math.round(1000 * answer.seconds)} ms` : `${answer.seconds.toFixed(1)} s`;
    const save = (format) => element("button", { type: "button", class: "link", onclick: () => this.save(name, fields, format) }, format);
    this.keep.replaceChildren(element("span", { class: "faint" }, `${seconds} \u00b7 save as `), save("svg"), " ", save("html"), " ", save("json"));
    this.drawn(this, answer);
  }

  // A slow view that was not requested yet.
  rest() {
    this.asked += 1;
    stop(this.place);
    this.root.classList.remove("waiting", "refused");
    this.state.textContent = this.body.childElementCount ? "this view is out of date; press Look" : "press Look, or Enter";
  }

  // An instrument that does not apply to the run.
  pass(reason) {
    this.rest();
    this.state.textContent = reason;
  }

  refuse(sentence) {
    this.root.classList.add("refused");
    this.state.textContent = sentence;
    hear(sentence);
  }

  async save(name, fields, format) {
    try {
      const file = await post(`api/save/${encodeURIComponent(name)}`, `${this.place}-save`, { ...fields, format });
      const address = URL.createObjectURL(file);
      element("a", { href: address, download: `${name}.${format}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      if (!(error instanceof Overtaken)) this.state.textContent = error.message;
    }
  }
}
