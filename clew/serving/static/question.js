// The form of a view: the text, the heads that are off, and the instrument's other options.

import { SHARED } from "./address.js";
import { element } from "./elements.js";
import { fileField } from "./files.js";
import { control } from "./form.js";

// `changed(name, value, { push })` is called with every change, `ask()` when the user wants the answer now.
export function question(views, state, changed, ask) {
  const run = views.runs.get(state.run);
  const fields = views.fieldsOf(state.view, state.run);
  const has = (name) => fields.find((field) => field.name === name);
  const parts = [];
  if (has("text") && run.media) parts.push(fileField(run, state.options.text, (file) => changed("text", file, { push: true })));
  else if (has("text")) parts.push(textField(has("text"), views.hasText(state.view, state.run), state, run, changed, ask));
  const side = [];
  if (has("target") && run.targets && state.view !== "write") {
    side.push(lineField("target", "target", "its own best", state, changed));
  }
  if (has("into") && run.languages.length) side.push(languageField(run, state, changed));
  if (side.length) parts.push(element("div", { class: "options" }, ...side));
  const silenced = has("off") || (state.view === "ablation" && has("heads")); // the option that lists the heads that are off
  if (silenced?.several) parts.push(headsField(silenced.several, state, changed));
  const needless = { heads: state.view === "ablation", second: !run.pairs };
  const rest = fields.filter((field) => !SHARED.includes(field.name) && !needless[field.name]);
  if (rest.length) {
    const controls = rest.map((field) =>
      field.name === "second" // a text too
        ? lineField("second", "second text", field.description, state, changed)
        : control(field, state.options[field.name], (value) => changed(field.name, value, { push: Boolean(field.together) }), fields, state.options)); // the choices of other options depend on it
    parts.push(element("div", { class: "options" }, ...controls));
  }
  if (!views.isQuick(state.view)) {
    parts.push(element("p", { class: "buttons" }, element("button", { type: "submit", class: "main" }, "Look"), element("span", { class: "faint" }, "this takes a while")));
  }
  return parts;
}

function textField(asked, needless, state, run, changed, ask) {
  const label = run.text;
  const field = element("textarea", { id: "text", rows: 1, spellcheck: "false", autocapitalize: "off", placeholder: `${asked.description || "what the model reads"}  ( / )`, "aria-label": label });
  field.value = needless && state.options.text === run.sample ? "" : state.options.text ?? "";
  const fit = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 0.3 * innerHeight)}px`;
  };
  field.addEventListener("input", () => {
    fit();
    changed("text", field.value, { push: false });
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask();
  });
  requestAnimationFrame(fit);
  return element("div", { class: "text" }, element("label", { for: "text" }, label), field);
}

function lineField(name, label, placeholder, state, changed) {
  const field = element("input", { id: `option-${name}`, type: "text", placeholder, value: state.options[name] ?? "", size: 40, spellcheck: "false" });
  field.addEventListener("input", () => changed(name, field.value || undefined, { push: false }));
  return element("div", { class: "option wide" }, element("label", { for: field.id }, label), field);
}

// The requested target language: the chosen one, or the run's first; undefined if the run has only one.
export function languageOf(run, into) {
  return run.languages.includes(into) ? into : run.languages[0];
}

function languageField(run, state, changed) {
  const choices = run.languages.map((language) => element("option", { value: language, selected: language === languageOf(run, state.options.into) }, language));
  const field = element("select", { id: "option-into", onchange: () => changed("into", field.value, { push: true }) }, ...choices);
  return element("div", { class: "option" }, element("label", { for: "option-into" }, "into"), field);
}

function headsField(heads, state, changed) {
  const off = state.options.off || [];
  const set = (names) => changed("off", names, { push: true });
  const chip = (name) =>
    element("button", { type: "button", class: "chip", title: `switch ${name} on again`, "aria-label": `head ${name} is off; switch it on`, onclick: () => set(off.filter((each) => each !== name)) }, name, " \u00d7");
  const rest = heads.filter((name) => !off.includes(name));
  const add = element("select", { id: "off", "aria-label": "switch a head off", onchange: () => add.value && set([...off, add.value]) },
    element("option", { value: "" }, off.length ? "another" : "none"), ...rest.map((name) => element("option", { value: name }, name)));
  return element("div", { class: "option heads" }, element("label", { for: "off" }, "heads off"), ...off.map(chip), add);
}
