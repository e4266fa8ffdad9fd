// The page: the address holds the state, and everything else follows from it.

import * as address from "./address.js";
import { Refused, get, stopAll } from "./ask.js";
import { element, hear } from "./elements.js";
import * as errors from "./errors.js";
import { possible } from "./form.js";
import * as keys from "./keys.js";
import { menu, neighbour, runPicker } from "./menu.js";
import { overview } from "./overview.js";
import { Panel, show } from "./panel.js";
import { languageOf, question } from "./question.js";
import * as theme from "./theme.js";
import { Views } from "./views.js";
import { walker } from "./walking.js";
import { Writing } from "./writing.js";

const PAUSE = 120; // milliseconds between a key and the request
const page = Object.fromEntries(["run", "beside", "beside-label", "theme", "views", "ask", "panels", "main"].map((id) => [id, document.getElementById(id)]));
const themeButton = page.theme;
let views;
let state;
let shown = { layout: "", panels: [] };
let pause;

async function start() {
  address.dropToken();
  theme.start(themeButton);
  try {
    views = new Views(await get("api/runs"));
  } catch (error) {
    page.panels.replaceChildren(element("p", { class: "state" }, error instanceof Refused ? error.message : String(error)));
    return;
  }
  page["beside-label"].hidden = views.runs.size < 2;
  page.run.addEventListener("change", () => change({ run: page.run.value }));
  page.beside.addEventListener("change", () => change({ beside: page.beside.value }));
  page.ask.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  addEventListener("popstate", restore);
  keys.start({
    focusText: () => {
      const field = document.getElementById("text");
      if (!field) return false;
      field.focus();
      field.select();
    },
    view: (by) => change({ view: neighbour(views, state, by) }),
    walk: (event) => walk(event),
    off: () => shown.walker?.off?.() ?? false,
    swap: () => (state.beside ? change({ run: state.beside, beside: state.run }) : false),
    theme: () => theme.turn(themeButton),
  });
  restore();
}

// The address's state, completed: existing names, and a sample text.
function restore() {
  const found = address.read();
  if (!views.runs.has(found.run)) found.run = [...views.runs.keys()][0];
  if (!views.runs.has(found.beside) || found.beside === found.run) found.beside = "";
  if (!views.all.has(found.view)) found.view = "glance";
  state = found;
  begin();
  render();
}

function begin() {
  if (state.options.text === undefined) state.options.text = views.runs.get(state.run).sample;
}

// Switch to a view or run: options of the old view are dropped, shared ones are kept.
function change(fields) {
  const other = fields.view !== undefined && fields.view !== state.view;
  const reads = (name) => views.runs.get(name).sample;
  const sampled = state.options.text === reads(state.run);
  const media = views.runs.get(state.run).media;
  state = { ...state, ...fields };
  if (state.beside === state.run) state.beside = "";
  if (other) state.options = Object.fromEntries(Object.entries(state.options).filter(([name]) => address.SHARED.includes(name)));
  else delete state.options.look;
  if (fields.run !== undefined) {
    delete state.options.chosen;
    delete state.options.at;
    if (sampled || views.runs.get(state.run).media !== media) state.options.text = reads(state.run);
    state.options.off = (state.options.off || []).filter((name) => views.runs.get(state.run).heads.includes(name));
    state.options = possible(views.fieldsOf(state.view, state.run), state.options);
  }
  address.write(state, { push: true });
  render();
  if (other) {
    page.main.focus({ preventScroll: true });
    scrollTo({ top: 0 });
    hear(views.all.get(state.view).label);
  }
}

// Change an option: the form is not rebuilt while the user types in it.
function set(name, value, { push, redraw = push }) {
  const options = { ...state.options, [name]: value };
  if (name === "text" || name === "into" || name === "off") {
    delete options.chosen;
    delete options.at;
  }
  if (value === undefined) delete options[name];
  state = { ...state, options: possible(views.fieldsOf(state.view, state.run), options) };
  if (!views.isQuick(state.view)) delete state.options.look;
  address.write(state, { push });
  if (redraw) return render();
  clearTimeout(pause);
  if (views.isQuick(state.view)) pause = setTimeout(fill, PAUSE);
}

function ask() {
  clearTimeout(pause);
  if (!views.isQuick(state.view)) {
    state.options.look = 1;
    address.write(state, { push: true });
  }
  layOut();
  fill();
}

function render() {
  const view = views.all.get(state.view);
  document.title = `${view.label} \u00b7 ${state.run} \u00b7 clew`;
  runPicker(page.run, views, state.run, {});
  runPicker(page.beside, views, state.beside, { none: "none" });
  for (const option of page.beside.options) option.disabled = option.value === state.run;
  page.views.replaceChildren(...menu(views, state, (name) => change({ view: name })));
  page.views.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const focused = document.activeElement?.id;
  page.ask.replaceChildren(element("p", { class: "about" }, (views.runs.get(state.run).media && view.files) || view.about), ...question(views, state, set, ask));
  if (focused && page.ask.querySelector(`#${CSS.escape(focused)}`)) document.getElementById(focused).focus();
  layOut();
  fill();
}

// Build the panels. They are reused if possible, so that an old picture stays visible until the next one arrives.
function layOut() {
  const off = (state.options.off || []).length > 0;
  const layout = JSON.stringify([state.view, state.run, state.beside, off]);
  if (layout === shown.layout) return;
  stopAll();
  const places = columns(off);
  const goes = shown.walker && shown.view === state.view && shown.run === state.run; // until the next picture arrives
  shown = { layout, view: state.view, run: state.run, panels: [], writings: [], walker: goes ? { ...shown.walker, panel: null } : null };
  page.panels.className = state.view === "glance" ? "panels glance" : places.length > 1 ? "panels columns" : "panels";
  if (state.view === "run") {
    page.panels.replaceChildren(...overview([state.run, state.beside].filter(Boolean).map((name) => views.runs.get(name))), ...curves());
  } else if (state.view === "write") {
    shown.writings = writings();
    const silent = [state.run, state.beside].filter(Boolean).map((name) => views.reason("write", name)).filter(Boolean);
    page.panels.replaceChildren(...shown.writings.map((each) => each.root), ...silent.map((reason) => element("p", { class: "state" }, reason)));
  } else {
    const names = state.view === "glance" ? views.glance(state.run) : [state.view];
    const rows = names.map((name) => [...places.map((column, number) => panelFor(name, column, number, places)), ...changes(name, off)]);
    page.panels.replaceChildren(...(state.view === "glance" ? rows.map((row) => element("div", { class: row.length > 1 ? "panels columns" : "panels" }, ...row.map((each) => each.root))) : rows[0].map((each) => each.root)));
    if (!names.length) page.panels.replaceChildren(element("p", { class: "state" }, "no quick instrument applies to this run; choose another view"));
  }
}

// The columns: two runs, or one run with and without the heads that are switched off.
function columns(off) {
  const instrument = views.instruments.get(state.view);
  const runs = [state.run, state.beside].filter(Boolean);
  const together = instrument?.several ? [runs] : runs.map((run) => [run]);
  const silences = off && asks(state.view, "off");
  return together.flatMap((each) => (silences && !state.beside
    ? [{ runs: each, heading: "all heads", off: false }, { runs: each, heading: "without " + state.options.off.join(", "), off: true }]
    : [{ runs: each, heading: state.beside && each.length === 1 ? each[0] : "", off: true }]));
}

function panelFor(name, column, number, places) {
  const open = state.view === "glance" ? () => change({ view: name }) : null;
  const panel = new Panel(`${name}-${number}`, { heading: column.heading || name, prefix: places.length > 1 ? column.heading : "", open, drawn });
  shown.panels.push({ panel, name, column });
  return panel;
}

// Whether a view has an option.
function asks(name, option) {
  return views.fieldsOf(name, state.run).some((field) => field.name === option);
}

// Below a comparison with and without heads: the change at each position.
function changes(name, off) {
  const shows = off && !state.beside && state.view !== "glance" && name !== "ablation" && asks(name, "off") && asks(name, "text");
  if (!shows || !views.instruments.has("ablation") || views.reason("ablation", state.run) !== null) return [];
  const panel = panelFor("ablation", { runs: [state.run], heading: "", off: true }, 9, []);
  panel.root.classList.add("whole");
  return [panel];
}

function curves() {
  const runs = [state.run, state.beside].filter((name) => name && views.instruments.has("curves") && views.reason("curves", name) === null);
  if (!runs.length) return [];
  const panel = panelFor("curves", { runs, heading: "", off: true }, 0, []);
  panel.root.classList.add("whole");
  return [panel.root];
}

function writings() {
  return [state.run, state.beside].filter(Boolean).filter((name) => views.reason("write", name) === null).map((name, number) =>
    new Writing(`write-${number}`, views.runs.get(name), {
      changed: (chosen, at) => {
        if (number) return; // the address holds the tokens of the first run
        state.options = { ...state.options, chosen, at: at === chosen.length ? undefined : at };
        address.write(state, { push: true });
      },
    }));
}

// Request every visible picture.
function fill() {
  for (const [number, writing] of (shown.writings || []).entries()) {
    const own = number ? {} : { written: state.options.chosen, at: state.options.at };
    const text = writing.run.media === views.runs.get(state.run).media ? state.options.text : writing.run.sample;
    writing.show({ ...state.options, ...own, text, into: languageOf(writing.run, state.options.into) });
  }
  const waits = !views.isQuick(state.view) && !state.options.look;
  const rows = new Map(); // panels of one instrument are side by side
  for (const { panel, name, column } of shown.panels) {
    const reasons = column.runs.map((run) => views.reason(name, run)).filter(Boolean);
    if (reasons.length) panel.pass(reasons[0]);
    else if (name === "ablation" && !state.options.off?.length) panel.pass("choose a head to switch off, above or in the attention view");
    else if (waits) panel.rest();
    else rows.set(name, [...(rows.get(name) || []), { panel, column: { runs: column.runs, options: optionsFor(name, column) } }]);
  }
  for (const [name, row] of rows) show(row.map((each) => each.panel), name, row.map((each) => each.column), { keep: !views.isQuick(name) });
}

function optionsFor(name, column) {
  const known = views.instruments.get(name).fields.map((field) => field.name);
  const run = views.runs.get(column.runs[0]);
  const fits = (option) => known.includes(option) && (name === state.view || address.SHARED.includes(option)); // the others belong to another view
  const options = Object.fromEntries(Object.entries(state.options).filter(([option, value]) => fits(option) && value !== undefined));
  if (views.hasText(name, run.name) && options.text === views.runs.get(state.run).sample) delete options.text; // the user did not type it
  if ("text" in options && run.media !== views.runs.get(state.run).media) options.text = run.sample; // a file is not a text
  if (name === "ablation") options.heads = state.options.off || [];
  if (options.off) options.off = column.off ? options.off.filter((head) => column.runs.every((each) => views.runs.get(each).heads.includes(head))) : [];
  if (known.includes("into")) options.into = languageOf(run, options.into);
  if (!run.targets) delete options.target;
  return options;
}

// Set up walking through a picture: heads of a grid, steps of a search.
function drawn(panel, found) {
  const { name } = shown.panels.find((each) => each.panel === panel);
  const has = (option) => asks(name, option);
  const moved = () => address.write(state, { push: false });
  const walking = walker(panel, found, { panel, state: () => state, has, set, moved, open: (options) => openView(name, options) });
  if (!views.runs.get(state.run).media) errors.link(panel, found, openView); // uploaded files are not those of an evaluation
  if (walking && [undefined, null, panel].includes(shown.walker?.panel)) shown.walker = { panel, ...walking };
}

// Open another choice within a view; from the glance, the view itself.
function openView(name, options) {
  const shared = Object.entries(state.options).filter(([option]) => state.view === name || address.SHARED.includes(option));
  const other = state.view !== name;
  state = { ...state, view: name, options: { ...Object.fromEntries(shared), ...options } };
  address.write(state, { push: true });
  render();
  if (other) scrollTo({ top: 0 });
}

function walk(event) {
  if (shown.writings?.length) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) return void shown.writings.forEach((writing) => writing.walk(by));
    return moveFocus(event);
  }
  return shown.walker?.key(event.key) ?? false;
}

// Move up and down through the candidates of the next token.
function moveFocus(event) {
  const buttons = [...page.panels.querySelectorAll(".candidates button")];
  const at = buttons.indexOf(document.activeElement);
  const next = buttons[at + (event.key === "ArrowDown" ? 1 : -1)] || buttons[at < 0 ? 0 : at];
  next?.focus();
  return Boolean(next);
}

start();
