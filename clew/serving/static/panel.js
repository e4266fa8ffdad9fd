// A panel: an instrument's picture of a run, with title, state and download links. It stays while a newer one is computed.

import { Overtaken, post, stop } from "./ask.js";
import { element, hear, picture } from "./elements.js";
import { enliven } from "./view.js";

const PATIENCE = 250; // milliseconds before a message says that work is in progress

const MOST_KEPT = 30;
const kept = new Map();

function remember(question, found) {
  kept.set(question, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

// Pictures that stand beside each other come in one answer, drawn on one scale: `columns` has a question for each panel. With `keep` an answer
// that took long is given again when it is asked for again.
export async function show(panels, name, columns, { keep = false } = {}) {
  const [first, ...beside] = columns;
  const fields = beside.length ? { ...first, beside } : first;
  const question = JSON.stringify([name, fields]);
  const numbers = panels.map((panel) => ++panel.asked);
  const current = () => panels.filter((panel, place) => panel.asked === numbers[place]);
  const draw = (found) => panels.forEach((panel, place) => {
    if (panel.asked !== numbers[place]) return;
    const own = found.views ? found.views[place] : found;
    const others = columns.filter((_, number) => number !== place);
    if (own.error) panel.refuse(own.error);
    else panel.draw(name, others.length ? { ...columns[place], beside: others } : columns[place], { ...own, seconds: found.seconds });
  });
  if (keep && kept.has(question)) return draw(kept.get(question));
  const began = performance.now();
  const ticking = setTimeout(() => current().forEach((panel) => panel.wait(began, panel.asked, panels[0].place)), PATIENCE);
  try {
    const found = await post(`api/look/${encodeURIComponent(name)}`, panels[0].place, fields);
    if (keep) remember(question, found);
    draw(found);
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

  draw(name, fields, found) {
    this.title.textContent = this.prefix ? `${this.prefix}: ${found.title}` : found.title;
    this.about.textContent = found.about;
    this.state.replaceChildren();
    this.root.classList.remove("refused");
    this.body.replaceChildren(picture(found.html));
    enliven(this.body);
    const seconds = found.seconds < 1 ? `${Math.round(1000 * found.seconds)} ms` : `${found.seconds.toFixed(1)} s`;
    const save = (format) => element("button", { type: "button", class: "link", onclick: () => this.save(name, fields, format) }, format);
    this.keep.replaceChildren(element("span", { class: "faint" }, `${seconds} \u00b7 save as `), save("svg"), " ", save("html"), " ", save("json"));
    this.drawn(this, found);
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
