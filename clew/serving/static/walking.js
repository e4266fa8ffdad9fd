// Walk through a picture with keys and clicks: between the heads of a grid, or the steps of a search.

import { element, hear } from "./elements.js";

// The walker of a panel's first picture, or null. Its `key(name)` returns false for a key that it does not use.
export function walker(panel, answer, page) {
  const marks = [...panel.body.querySelectorAll(".part-grid [data-row][data-column]")];
  if (marks.length && page.has("layer") && page.has("head") && answer.facts.names) return heads(marks, answer, page);
  const tree = panel.body.querySelector(".part-branches svg");
  return tree ? search(panel, tree, page) : null;
}

// Each row of the grid is a layer, each column a head; the facts have their numbers and names (a layer without heads has none). The chosen head
// is drawn large, and `o` switches it off or on. The position and the heads that are off come from the page, since keys may overtake pictures.
function heads(marks, answer, page) {
  const { layers, names } = answer.facts;
  const places = marks.map((mark) => [Number(mark.dataset.row), Number(mark.dataset.column)]);
  const name = ([row, column]) => names[row][column];
  const off = () => page.state().options.off || [];
  const at = () => {
    const { layer, head } = page.state().options;
    const where = [layers.indexOf(layer ?? answer.facts.layer), head - 1];
    return head && names[where[0]]?.[where[1]] ? where : null;
  };
  const choose = (where) => {
    hear(`head ${name(where)}`);
    page.open({ layer: layers[where[0]], head: where[1] + 1 });
  };
  const turn = () => page.set("off", off().includes(name(at())) ? off().filter((each) => each !== name(at())) : [...off(), name(at())], { push: true });
  const chosen = at();
  for (const [number, mark] of marks.entries()) {
    mark.classList.toggle("chosen", chosen !== null && name(places[number]) === name(chosen));
    mark.classList.toggle("silent", answer.facts.off.includes(name(places[number]))); // in this picture
    mark.addEventListener("pick", () => choose(places[number]));
  }
  if (chosen && page.has("off")) {
    const word = off().includes(name(chosen)) ? "on" : "off";
    const button = element("button", { type: "button", title: "switch the chosen head off or on (o)", onclick: turn }, `switch ${name(chosen)} ${word}`);
    const mean = element("button", { type: "button", onclick: () => page.open({ head: undefined }) }, "mean of the layer");
    page.panel.body.prepend(element("div", { class: "buttons" }, button, mean, element("span", { class: "faint" }, "arrow keys move between heads")));
  }
  return {
    key(key) {
      const [down, right] = MOVES[key];
      const [row, column] = at() ?? [layers.indexOf(answer.facts.layer), -1];
      const wanted = Math.max(0, column + right);
      const beyond = places.filter((place) => place[1] === wanted && (down ? (place[0] - row) * down > 0 : place[0] === row)); // a layer may have no heads left
      const next = beyond[down < 0 ? beyond.length - 1 : 0];
      if (next) choose(next);
      return Boolean(next);
    },
    off: () => (at() && page.has("off") ? turn() : false),
  };
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// A search grows from left to right, one column per step; later steps are hidden.
function search(panel, drawing, page) {
  const rights = new Map(); // the right edge of each column of boxes, by its left edge
  for (const mark of drawing.querySelectorAll("[data-row]")) {
    const left = Number(mark.getAttribute("x"));
    rights.set(left, Math.max(rights.get(left) ?? 0, left + Number(mark.getAttribute("width"))));
  }
  const lefts = [...rights.keys()].sort((a, b) => a - b);
  const last = lefts.length - 1;
  const width = drawing.viewBox.baseVal.width || drawing.clientWidth;
  const slider = element("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "step of the search" });
  const label = element("output", {});
  const move = (by) => show(Math.min(last, Math.max(0, Number(slider.value) + by)), true);
  const show = (step, announce) => {
    slider.value = step;
    label.textContent = `step ${step} of ${last}`;
    const end = step === last ? width : rights.get(lefts[step]) + 3;
    drawing.style.clipPath = `inset(0 ${(100 * (1 - end / width)).toFixed(3)}% 0 0)`;
    if (!announce) return;
    const frame = drawing.parentElement;
    const right = (end / width) * drawing.clientWidth;
    if (right > frame.scrollLeft + frame.clientWidth || right - 160 < frame.scrollLeft) frame.scrollLeft = right - frame.clientWidth + 20;
    hear(label.textContent);
    page.state().options.step = step === last ? undefined : step;
    page.moved();
  };
  slider.addEventListener("input", () => show(Number(slider.value), true));
  const button = (text, title, by) => element("button", { type: "button", title, onclick: () => move(by) }, text);
  panel.body.prepend(element("div", { class: "buttons stepping" }, button("\u2190 back", "one step back (left)", -1), slider, button("on \u2192", "one step forward (right)", 1), label));
  show(Math.min(last, page.state().options.step ?? last), false);
  return {
    key(key) {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return false;
      move(key === "ArrowRight" ? 1 : -1);
    },
  };
}
