// One picture: what an instrument sees in a run, with its title, its state and ways to keep it. It stays while a newer one is made.

import { Overtaken, post, stop } from "./ask.js";
import { element, hear, picture } from "./elements.js";

const PATIENCE = 250; // milliseconds before a reader is told that something is under way

export class Panel {
  constructor(place, { heading, open, drawn = () => {} }) {
    this.place = place;
    this.drawn = drawn;
    this.title = element("h2", {}, heading || "");
    this.about = element("p", { class: "about" });
    this.state = element("p", { class: "state", role: "status" });
    this.body = element("div", { class: "picture" });
    this.keep = element("div", { class: "keep" });
    const head = element("div", { class: "head" }, this.title, open ? element("button", { type: "button", class: "link", onclick: open }, "open") : null);
    this.root = element("section", { class: "panel", "aria-label": heading || "view" }, head, this.about, this.state, this.body, this.keep);
    this.asked = 0;
  }

  async show(name, fields) {
    const number = ++this.asked;
    const began = performance.now();
    const ticking = setTimeout(() => this.wait(began, number), PATIENCE);
    try {
      const found = await post(`api/look/${encodeURIComponent(name)}`, this.place, fields);
      if (number !== this.asked) return;
      this.draw(name, fields, found);
    } catch (error) {
      if (number !== this.asked || error instanceof Overtaken) return;
      this.refuse(error.message);
    } finally {
      clearTimeout(ticking);
      if (number === this.asked) this.root.classList.remove("waiting");
    }
  }

  wait(began, number) {
    if (number !== this.asked) return;
    this.root.classList.add("waiting");
    const seconds = Math.floor((performance.now() - began) / 1000);
    const clock = element("span", {}, seconds ? ` ${seconds} s` : "");
    this.state.replaceChildren("looking", clock, " ", element("button", { type: "button", class: "link", onclick: () => this.end() }, "stop"));
    const tick = setInterval(() => {
      if (number !== this.asked || !this.root.classList.contains("waiting")) return clearInterval(tick);
      clock.textContent = ` ${Math.floor((performance.now() - began) / 1000)} s`;
    }, 1000);
  }

  end() {
    this.asked += 1;
    stop(this.place);
    this.root.classList.remove("waiting");
    this.state.replaceChildren("stopped");
  }

  draw(name, fields, found) {
    this.title.textContent = found.title;
    this.about.textContent = found.about;
    this.state.replaceChildren();
    this.root.classList.remove("refused");
    this.body.replaceChildren(picture(found.html));
    const seconds = found.seconds < 1 ? `${Math.round(1000 * found.seconds)} ms` : `${found.seconds.toFixed(1)} s`;
    const save = (format) => element("button", { type: "button", class: "link", onclick: () => this.save(name, fields, format) }, format);
    this.keep.replaceChildren(element("span", { class: "faint" }, `${seconds} \u00b7 save as `), save("svg"), " ", save("html"), " ", save("json"));
    this.drawn(this, found);
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
