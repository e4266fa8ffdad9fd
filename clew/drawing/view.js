// Shows the values of views' pictures at the pointer and by the arrow keys. Saved documents contain it, and the page loads it as a module.
// It writes text only (textContent), whatever a name contains.

const SVG = "http://www.w3.org/2000/svg";

/** Makes every view in an element answer. A mark that is clicked, or entered by the keyboard, sends the event `pick` with its row and column. */
export function enliven(root) {
  const views = [...root.querySelectorAll(".clew-view")];
  if (root.matches?.(".clew-view")) views.push(root);
  for (const view of views) {
    if (view.dataset.live !== undefined) continue;
    view.dataset.live = "";
    for (const picture of view.querySelectorAll(".picture[data-readout]")) {
      const readout = JSON.parse(picture.dataset.readout);
      if (readout.kind === "raster") readRaster(view, picture, readout);
      else readLines(view, picture, readout);
    }
    readMarks(view);
    for (const steps of view.querySelectorAll(".steps")) readSteps(view, steps);
  }
}

/** In a notebook's frame: as high as the view is, in the notebook's theme. */
export function fit() {
  let frame, outer;
  try {
    frame = window.frameElement;
    outer = frame && window.parent.document;
  } catch { return; }
  if (!frame) return;
  document.documentElement.classList.add("framed");
  const theme = notebookTheme(outer);
  if (theme) document.documentElement.dataset.theme = theme;
  const view = document.querySelector(".clew-view");
  const follow = () => { frame.style.height = `${Math.ceil(view.getBoundingClientRect().height) + 2}px`; };
  new ResizeObserver(follow).observe(view);
  follow();
}

function notebookTheme(outer) {
  const { body, documentElement } = outer;
  if (body?.dataset.jpThemeLight) return body.dataset.jpThemeLight === "true" ? "light" : "dark";
  if (body?.matches(".vscode-dark, .vscode-high-contrast:not(.vscode-high-contrast-light)")) return "dark";
  if (body?.matches(".vscode-light, .vscode-high-contrast-light")) return "light";
  const colab = documentElement.getAttribute("theme");
  return colab === "dark" || colab === "light" ? colab : null;
}

// Values appear in one box near their place; when keys are used, they are also announced to screen readers.

function say(view, content, place, aloud) {
  const box = view.querySelector(".say"), rows = typeof content === "string" ? [content] : content;
  box.replaceChildren(...rows.map((row) => {
    const line = document.createElement("div");
    if (typeof row === "string") line.textContent = row;
    else {
      const [swatch, name, value] = ["i", "span", "b"].map((kind) => document.createElement(kind));
      swatch.style.background = `var(--c${row.colour})`;
      name.textContent = row.name;
      value.textContent = row.value;
      line.append(swatch, name, value);
    }
    return line;
  }));
  box.hidden = false;
  const left = place.x + 16 + box.offsetWidth > innerWidth ? place.x - 12 - box.offsetWidth : place.x + 16;
  const top = place.y + 16 + box.offsetHeight > innerHeight ? place.y - 12 - box.offsetHeight : place.y + 16;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, top)}px`;
  if (aloud) view.querySelector(".heard").textContent = rows.map((row) => typeof row === "string" ? row : `${row.name} ${row.value}`).join(", ");
}

function hush(view) {
  view.querySelector(".say").hidden = true;
}

function figure(value) {
  return value === 0 ? "0" : Math.abs(value) >= 1e-4 && Math.abs(value) < 1e7 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
}

// Marks: shapes and words with a description.

function textOf(mark) {
  if (mark.dataset.say === undefined) {
    const title = mark.querySelector(":scope > title");
    mark.dataset.say = title ? title.textContent : mark.getAttribute("title") ?? "";
    title?.remove(); // the browser would show it a second time
    mark.removeAttribute("title");
  }
  return mark.dataset.say;
}

function middleOf(element) {
  const box = element.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
}

function readMarks(view) {
  const at = new Map(); // the current mark of each picture, for the keys
  const leave = (picture) => {
    at.get(picture)?.classList.remove("at");
    at.delete(picture);
    hush(view);
  };
  view.addEventListener("pointermove", (event) => {
    const mark = event.target.closest?.(".mark");
    if (mark) say(view, textOf(mark), { x: event.clientX, y: event.clientY });
    else if (!event.target.closest?.("[data-readout]")) hush(view);
  });
  view.addEventListener("pointerleave", () => hush(view));
  view.addEventListener("click", (event) => pick(event.target.closest?.(".mark[data-row]")));
  for (const picture of view.querySelectorAll(".picture:not([data-readout])[tabindex], .coloured")) {
    picture.addEventListener("blur", () => leave(picture));
    picture.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return leave(picture);
      if (event.key === "Enter") return pick(at.get(picture));
      const marks = [...picture.querySelectorAll(".mark")];
      const isText = picture.matches(".coloured"), isTree = picture.matches(".part-branches *");
      const next = (isTree && along(marks, at.get(picture), event.key)) || step(marks, at.get(picture), event.key, isText);
      if (!next) return;
      event.preventDefault();
      at.get(picture)?.classList.remove("at");
      at.set(picture, next);
      next.classList.add("at");
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
      say(view, textOf(next), middleOf(next), true);
    });
  }
}

function pick(mark) {
  if (!mark?.dataset.row) return;
  const detail = { row: Number(mark.dataset.row), column: Number(mark.dataset.column) };
  mark.dispatchEvent(new CustomEvent("pick", { bubbles: true, detail }));
}

// Steps: layers over one picture, one per word. The arrow keys step through them, on the picture and wherever they have no other use.

function readSteps(view, steps) {
  const words = [...steps.querySelectorAll(".sentence button")], layers = [...steps.querySelectorAll(".layer")];
  const slider = steps.querySelector("input"), output = steps.querySelector("output"), part = steps.closest(".part");
  const small = [...part.querySelectorAll(".thumb[data-row]")];
  let at = 0;
  const show = (step, aloud) => {
    at = Math.min(words.length - 1, Math.max(0, step));
    layers.forEach((layer, number) => layer.toggleAttribute("hidden", number !== at));
    words.forEach((word, number) => { word.ariaCurrent = number === at ? "step" : null; });
    small.forEach((thumb) => thumb.classList.toggle("now", Number(thumb.dataset.row) === at));
    slider.value = at;
    slider.ariaValueText = words[at].textContent;
    output.textContent = layers[at].dataset.say;
    if (aloud) view.querySelector(".heard").textContent = output.textContent;
  };
  const key = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target === slider) return;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: words.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next, true);
  };
  const elsewhere = (event) => {
    if (!steps.isConnected) return document.removeEventListener("keydown", elsewhere);
    const taken = event.target.closest?.("input, textarea, select, dialog, [tabindex='0']") || document.querySelector("dialog[open]");
    if (!taken && event.key.startsWith("Arrow")) key(event);
  };
  slider.addEventListener("input", () => show(Number(slider.value), true));
  words.forEach((word, number) => word.addEventListener("click", () => show(number, true)));
  for (const button of steps.querySelectorAll("[data-by]")) button.addEventListener("click", () => show(at + Number(button.dataset.by), true));
  part.addEventListener("pick", (event) => show(event.detail.row, true));
  steps.addEventListener("keydown", key);
  document.addEventListener("keydown", elsewhere);
  steps.hidden = false;
  show(0);
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The mark that a key leads to: the nearest in its direction; in a text, the one before or after. */
function step(marks, from, key, isText) {
  if (key === "Home") return marks[0];
  if (key === "End") return marks.at(-1);
  const direction = DIRECTIONS[key];
  if (!direction) return null;
  if (!from) return marks[0];
  if (isText && direction[0]) return marks[marks.indexOf(from) + direction[0]] ?? from;
  const start = middleOf(from), [right, down] = direction;
  let best = from, least = Infinity;
  for (const mark of marks) {
    const place = middleOf(mark), x = place.x - start.x, y = place.y - start.y;
    const ahead = x * right + y * down, aside = Math.abs(x * down) + Math.abs(y * right);
    if (ahead > 0.5 && ahead + 3 * aside < least) [best, least] = [mark, ahead + 3 * aside];
  }
  return best;
}

/** In a search: to the parent, or to the best child. A mark's column is the number of its parent. */
function along(marks, from, key) {
  if (key === "ArrowLeft") return marks.find((mark) => mark.dataset.row === from?.dataset.column);
  if (key !== "ArrowRight" || !from) return null;
  const after = marks.filter((mark) => mark.dataset.column === from.dataset.row);
  return after.find((mark) => mark.matches(".best")) ?? after.find((mark) => mark.matches(".kept")) ?? after[0] ?? from;
}

function inPicture(picture, event) {
  return new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
}

function onScreen(picture, x, y) {
  return new DOMPoint(x, y).matrixTransform(picture.getScreenCTM());
}

function drawn(picture, kind, attributes) {
  const shape = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  picture.append(shape);
  return shape;
}

// Large heatmaps: values are read from the image itself, so that the page does not contain them twice.

function readRaster(view, picture, { left, top, wide, tall, low, high, diverging, unit, rows, columns }) {
  let levels = null, at = null, cursor = null;
  const load = () => levels ??= Promise.all([...picture.querySelectorAll("mask image")].map(pixelsOf));
  const leave = () => {
    cursor?.remove();
    at = cursor = null;
    hush(view);
  };
  const show = async (row, column, place, aloud) => {
    at = { row, column };
    const [main, other] = await load();
    if (at?.row !== row || at.column !== column) return;
    cursor ??= drawn(picture, "rect", { class: "cursor", width: Math.max(wide, 5), height: Math.max(tall, 5) });
    cursor.setAttribute("x", left + (column + 0.5) * wide - Math.max(wide, 5) / 2);
    cursor.setAttribute("y", top + (row + 0.5) * tall - Math.max(tall, 5) / 2);
    const pixel = 4 * (row * columns.length + column);
    const share = (main[pixel] - (diverging ? other[pixel] : 0)) / 255;
    const value = diverging ? share * high : low + share * (high - low), digits = Math.min(20, Math.max(0, Math.ceil(-Math.log10((high - low) / 255))));
    const shown = unit === "%" ? Number((100 * value).toFixed(Math.max(0, digits - 2))) : Number(value.toFixed(digits));
    const text = main[pixel + 3] === 0 ? "none" : `\u2248 ${shown}${unit ? ` ${unit}` : ""}`; // an image has 256 levels
    say(view, `${rows[row]}, ${columns[column]}: ${text}`, place ?? onScreen(picture, left + (column + 0.5) * wide, top + (row + 0.5) * tall), aloud);
  };
  picture.addEventListener("pointermove", (event) => {
    const { x, y } = inPicture(picture, event), row = Math.floor((y - top) / tall), column = Math.floor((x - left) / wide);
    if (row < 0 || column < 0 || row >= rows.length || column >= columns.length) leave();
    else show(row, column, { x: event.clientX, y: event.clientY });
  });
  picture.addEventListener("pointerleave", leave);
  picture.addEventListener("blur", leave);
  picture.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave();
    const [right, down] = DIRECTIONS[event.key] ?? [0, 0], from = at ?? { row: 0, column: 0 };
    const jump = { Home: [from.row, 0], End: [from.row, columns.length - 1], PageUp: [from.row - 10, from.column], PageDown: [from.row + 10, from.column] }[event.key];
    if (!right && !down && !jump) return;
    event.preventDefault();
    const [row, column] = jump ?? (at ? [from.row + down, from.column + right] : [0, 0]);
    show(Math.min(rows.length - 1, Math.max(0, row)), Math.min(columns.length - 1, Math.max(0, column)), null, true);
  });
}

async function pixelsOf(image) {
  const source = new Image();
  source.src = image.getAttribute("href");
  await source.decode();
  const canvas = document.createElement("canvas");
  canvas.width = source.naturalWidth;
  canvas.height = source.naturalHeight;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(source, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height).data;
}

// Lines: the value of each at one place.

function readLines(view, picture, { field: [left, top, right, bottom], x, y, label, names, series }) {
  const along = ([low, high, log], value) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const across = (value) => left + (right - left) * along(x, value);
  const places = [...new Set(series.flatMap((each) => each.x.filter((value, at) => value !== null && each.y[at] !== null && (value > 0 || !x[2]))))]
    .sort((a, b) => a - b);
  let at = null, shapes = [];
  const leave = () => {
    shapes.forEach((shape) => shape.remove());
    shapes = [];
    at = null;
    hush(view);
  };
  const show = (number, aloud) => {
    leave();
    at = number;
    const value = places[at], values = [];
    shapes.push(drawn(picture, "path", { class: "cross", d: `M${across(value)} ${top}V${bottom}` }));
    for (const each of series) {
      const found = each.x.indexOf(value);
      if (found < 0 || each.y[found] === null) continue;
      values.push({ colour: each.colour, name: each.name, value: figure(each.y[found]), height: each.y[found] });
      if (y[2] && each.y[found] <= 0) continue;
      const dot = drawn(picture, "circle", { cx: across(value), cy: bottom - (bottom - top) * along(y, each.y[found]), r: 4.5, class: "dot" });
      dot.style.fill = `var(--c${each.colour})`;
      shapes.push(dot);
    }
    values.sort((a, b) => b.height - a.height);
    say(view, [`${label} ${names?.[value] ?? figure(value)}`.trim(), ...values], onScreen(picture, across(value), top + 4), aloud);
  };
  picture.addEventListener("pointermove", (event) => {
    const place = inPicture(picture, event).x;
    if (!places.length || place < left - 8 || place > right + 8) return leave();
    let best = 0;
    places.forEach((value, number) => { if (Math.abs(across(value) - place) < Math.abs(across(places[best]) - place)) best = number; });
    if (best !== at) show(best);
  });
  picture.addEventListener("pointerleave", leave);
  picture.addEventListener("blur", leave);
  picture.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave();
    const jump = Math.max(1, Math.round(places.length / 20));
    const from = at ?? -1;
    const next = { ArrowRight: from + 1, ArrowLeft: at === null ? places.length - 1 : at - 1, PageUp: from + jump, PageDown: from - jump, Home: 0, End: places.length - 1 }[event.key];
    if (next === undefined || !places.length) return;
    event.preventDefault();
    show(Math.min(places.length - 1, Math.max(0, next)), true);
  });
}
