// Write token by token: the probabilities of the next token, and the chosen one. Left goes back, right continues with the most probable.

import { Overtaken, post } from "./ask.js";
import { element, hear, visible } from "./elements.js";

const SHOWN = 20; // tokens that are listed

export class Writing {
  constructor(place, run, { changed }) {
    this.place = place;
    this.run = run;
    this.changed = changed;
    this.path = element("p", { class: "path" });
    this.text = element("p", { class: "so-far" });
    this.facts = element("p", { class: "about" });
    this.list = element("ol", { class: "candidates", "aria-label": "next tokens, most probable first" });
    this.state = element("p", { class: "state", role: "status" });
    const button = (label, title, act) => element("button", { type: "button", title, onclick: act }, label);
    this.back = button("\u2190 back", "one token back (left)", () => this.walk(-1));
    this.on = button("on \u2192", "continue with the most probable token, or along the previous path (right)", () => this.walk(1));
    this.ten = button("ten more", "the most probable token, ten times", () => this.walk(10));
    this.chance = button("draw", "draw a token from the model's distribution over all tokens", () => this.drawOne());
    this.said = element("p", { class: "about said" });
    this.again = button("from the start", "delete the written tokens", () => this.take([], 0));
    this.root = element(
      "section",
      { class: "panel writing", "aria-label": `writing with ${run.name}` },
      element("div", { class: "head" }, element("h2", {}, `${run.name} writes`)),
      this.text, this.path, this.facts, this.said, this.state,
      element("div", { class: "buttons" }, this.back, this.on, this.ten, this.chance, this.again),
      this.list,
    );
    this.written = [];
    this.at = 0;
    this.asked = 0;
  }

  // `written` are ids, of which the first `at` are read; the others are the path taken before.
  async show({ text, into, off, written = [], at }) {
    this.request = { text: text || "", into: into || "", off: off || [] };
    this.written = written;
    this.at = Math.min(at ?? written.length, written.length);
    await this.look();
  }

  question() {
    return { runs: [this.run.name], ...this.request, chosen: this.written.slice(0, this.at), top: SHOWN };
  }

  async look() {
    const number = ++this.asked;
    try {
      const answer = await post("api/step", this.place, this.question());
      if (number !== this.asked) return false;
      this.draw(answer);
      return true;
    } catch (error) {
      if (!(error instanceof Overtaken)) this.state.textContent = error.message;
      return false;
    }
  }

  draw(answer) {
    this.answer = answer;
    this.state.textContent = "";
    this.text.replaceChildren(element("span", { class: "faint" }, answer.before), element("strong", {}, answer.text), element("span", { class: "caret" }, answer.ended ? "" : "\u258f"));
    this.path.replaceChildren(
      ...answer.tokens.map((token, place) =>
        element("button", { type: "button", class: "token", title: `back to after token ${place + 1}`, onclick: () => this.take(this.written, place + 1) }, visible(token))),
      ...(this.at < this.written.length ? [element("span", { class: "faint" }, `${this.written.length - this.at} more on the way (\u2192)`)] : []),
    );
    this.facts.textContent = answer.ended
      ? `the text has ended; log p ${answer.log_prob.toFixed(2)} nats`
      : `entropy ${answer.next.entropy.toFixed(2)} bits; log p so far ${answer.log_prob.toFixed(2)} nats; all others together ${percent(answer.next.outside)}`;
    this.candidates = answer.next.ids.map((id, place) => ({ id, token: answer.next.tokens[place], probability: answer.next.probabilities[place] }));
    this.list.replaceChildren(
      ...this.candidates.map((each) =>
        element("li", {},
          element("button", { type: "button", disabled: answer.ended, onclick: () => this.choose(each), class: each.id === answer.end ? "end" : "" },
            element("span", { class: "word" }, visible(each.token)),
            element("span", { class: "bar" }, element("span", { style: `width:${(100 * each.probability).toFixed(1)}%` })),
            element("span", { class: "share" }, percent(each.probability))))),
      ...(answer.ended ? [] : [this.others(answer.next.outside)]),
    );
    this.back.disabled = this.again.disabled = this.at === 0;
    this.chance.disabled = answer.ended;
    this.on.disabled = this.ten.disabled = answer.ended && this.at >= this.written.length;
  }

  // The total probability of unlisted tokens: none of them can be chosen, but each can be drawn.
  others(share) {
    return element("li", { class: "others" },
      element("span", { class: "word" }, "all others"),
      element("span", { class: "bar" }, element("span", { style: `width:${(100 * share).toFixed(1)}%` })),
      element("span", { class: "share" }, percent(share)));
  }

  // Draw from the distribution over all tokens. The server draws, since the page has only some of them.
  async drawOne() {
    const number = ++this.asked;
    const [seed] = crypto.getRandomValues(new Uint32Array(1));
    try {
      const { drawn } = await post("api/step", this.place, { ...this.question(), seed });
      if (number !== this.asked) return;
      const outside = drawn.rank > this.candidates.length ? `, none of the ${this.candidates.length} listed` : "";
      await this.choose(drawn);
      this.said.textContent = `drawn: ${visible(drawn.token)}, ${percent(drawn.probability)}, rank ${drawn.rank}${outside}`;
    } catch (error) {
      if (!(error instanceof Overtaken)) this.state.textContent = error.message;
    }
  }

  choose(candidate) {
    this.said.textContent = "";
    hear(`${visible(candidate.token)}, ${percent(candidate.probability)}`);
    return this.take([...this.written.slice(0, this.at), candidate.id], this.at + 1);
  }

  async take(written, at) {
    this.written = written;
    this.at = at;
    this.changed(this.written, this.at);
    return this.look();
  }

  async walk(count) {
    if (count < 0) return this.at && this.take(this.written, this.at - 1);
    for (let done = 0; done < count; done++) {
      const along = this.at < this.written.length;
      if (!along && (!this.answer || this.answer.ended)) return;
      const went = along ? await this.take(this.written, this.at + 1) : await this.choose(this.candidates[0]);
      if (!went) return;
    }
  }
}

function percent(share) {
  return share >= 0.1 ? `${(100 * share).toFixed(0)}\u00a0%` : share >= 0.001 ? `${(100 * share).toFixed(1)}\u00a0%` : "<\u00a00.1\u00a0%";
}
