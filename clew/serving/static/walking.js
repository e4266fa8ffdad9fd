// Walking through a picture by keys and clicks: from head to head of a grid, from step to step of a search.

import { element, hear } from "./elements.js";

// What the first picture of a panel lets one walk through, or null. `key(name)` says false where a key means nothing here.
export function walker(panel, found, page) {
  const marks = [...panel.body.querySelectorAll(".grid [data-row][data-column]")];
  if (marks.length && page.has("layer") && page.has("head")) return heads(marks, found, page);
  const tree = panel.body.querySelector(".branches svg");
  return tree ? search(panel, tree, page) : null;
}

function heads(marks, found, page) {
  const place = (mark) => [Number(mark.dataset.row), Number(mark.dataset.column)];
  const nameOf = (row, column) => found.facts.names?.[row]?.[column] ?? `${row + 1}.${column + 1}`;
  const at = () => {
    const chosen = found.facts.shown ?? "1.1";
    return marks.map(place).find(([row, column]) => nameOf(row, column) === chosen) || [0, 0];
  };
  const choose = ([row, column]) => {
    hear(`head ${nameOf(row, column)}`);
    page.open(chosenOptions(nameOf(row, column)));
  };
  for (const mark of marks) {
    const [row, column] = place(mark);
    const name = nameOf(row, column);
    mark.classList.toggle("chosen", name === nameOf(...at()));
    mark.classList.toggle("silent", (page.state.options.off || []).includes(name));
    mark.addEventListener("click", () => choose([row, column]));
    mark.addEventListener("keydown", (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), choose([row, column])));
  }
  return {
    key(key) {
      const [down, right] = MOVES[key];
      const [row, column] = at();
      const next = marks.map(place).find(([r, c]) => r === row + down && c === column + right);
      if (next) choose(next);
      return Boolean(next);
    },
    off() {
      const name = nameOf(...at());
      const now = page.state.options.off || [];
      page.set("off", now.includes(name) ? now.filter((each) => each !== name) : [...now, name], { push: true });
    },
  };
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// "2.5" -> { layer: 2, head: 5 }; a decoder's own or its looks at the source are told by what comes before.
export function chosenOptions(name) {
  const parts = name.split(".");
  return { layer: parts.length > 2 ? `${parts[0]}.${parts[1]}` : Number(parts[0]), head: Number(parts.at(-1)) };
}

// A search grows from left to right, a column a step: what comes after a step is cut off at the right.
function search(panel, drawing, page) {
  const lefts = [...new Set([...drawing.querySelectorAll("[data-row]")].map((mark) => Number(mark.getAttribute("x"))))].sort((a, b) => a - b);
  const last = lefts.length - 1;
  const width = drawing.viewBox.baseVal.width || drawing.clientWidth;
  const slider = element("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "step of the search" });
  const label = element("output", {});
  const move = (by) => show(Math.min(last, Math.max(0, Number(slider.value) + by)), true);
  const show = (step, told) => {
    slider.value = step;
    label.textContent = `step ${step} of ${last}`;
    const end = step === last ? width : lefts[step + 1] - 4;
    drawing.style.clipPath = `inset(0 ${(100 * (1 - end / width)).toFixed(3)}% 0 0)`;
    if (!told) return;
    const frame = drawing.parentElement;
    const right = (end / width) * drawing.clientWidth;
    if (right > frame.scrollLeft + frame.clientWidth || right - 160 < frame.scrollLeft) frame.scrollLeft = right - frame.clientWidth + 20;
    hear(label.textContent);
    page.state.options.step = step === last ? undefined : step;
    page.moved();
  };
  slider.addEventListener("input", () => show(Number(slider.value), true));
  const button = (text, title, by) => element("button", { type: "button", title, onclick: () => move(by) }, text);
  panel.body.prepend(element("div", { class: "buttons stepping" }, button("\u2190 back", "a step back (left)", -1), slider, button("on \u2192", "a step on (right)", 1), label));
  show(Math.min(last, page.state.options.step ?? last), false);
  return {
    key(key) {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return false;
      move(key === "ArrowRight" ? 1 : -1);
    },
  };
}
