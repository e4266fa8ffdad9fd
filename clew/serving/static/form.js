// A form from the options of an instrument, as JSON schema describes them: a new instrument has one without a line here.

import { element } from "./elements.js";

// { name, kind, description, fallback, choices, low, high }
export function fields(schema) {
  return Object.entries(schema.properties || {}).map(([name, given]) => {
    const found = resolve(given, schema);
    const variants = (found.anyOf || [found]).map((each) => resolve(each, schema));
    const type = variants.find((each) => each.type !== "null") || found;
    return {
      name,
      kind: type.enum || type.const !== undefined ? "choice" : type.type || "string",
      empty: variants.some((each) => each.type === "null"),
      words: variants.some((each) => each.type === "string" || each.enum),
      description: given.description || found.description || "",
      fallback: given.default,
      items: resolve(type.items || {}, schema).type || "string",
      choices: type.enum || (type.const === undefined ? [] : [type.const]),
      low: type.minimum ?? type.exclusiveMinimum,
      high: type.maximum ?? type.exclusiveMaximum,
    };
  });
}

function resolve(given, schema) {
  return given.$ref ? schema.$defs[given.$ref.split("/").at(-1)] : given;
}

export function control(field, value, changed) {
  const id = `option-${field.name}`;
  const shown = value === undefined ? field.fallback : value;
  const common = { id, name: field.name, "aria-describedby": `${id}-about` };
  let input;
  if (field.kind === "choice") {
    const choices = field.empty ? ["", ...field.choices] : field.choices;
    input = element("select", common, choices.map((choice) => element("option", { value: choice, selected: choice === shown }, String(choice || "\u2013").replaceAll("_", " "))));
  } else if (field.kind === "boolean") {
    input = element("input", { ...common, type: "checkbox", checked: Boolean(shown) });
  } else if (field.kind === "array") {
    input = element("input", { ...common, type: "text", value: (shown || []).join(", "), placeholder: "a, b, ...", spellcheck: "false" });
  } else {
    const number = (field.kind === "integer" || field.kind === "number") && !field.words;
    const step = field.kind === "integer" ? 1 : "any";
    const bounds = number ? { type: "number", min: field.low, max: field.high, step } : { type: "text", spellcheck: "false" };
    input = element("input", { ...common, ...bounds, value: shown ?? "", size: 10 });
  }
  input.addEventListener(field.kind === "choice" || field.kind === "boolean" ? "change" : "input", () => changed(taken(field, input)));
  const label = element("label", { for: id }, field.name.replaceAll("_", " "));
  return element("div", { class: "option" }, label, input, element("span", { class: "about", id: `${id}-about`, title: field.description }, field.description));
}

// undefined: as the instrument has it by itself.
function taken(field, input) {
  if (field.kind === "boolean") return input.checked;
  const text = input.value.trim();
  if (text === "") return field.kind === "string" && !field.empty ? "" : undefined;
  if (field.kind === "array") return text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => (field.items === "string" ? part : scalar(part)));
  if (field.kind === "choice") return field.choices.find((choice) => String(choice) === text);
  if (field.kind === "integer" || field.kind === "number") return scalar(text);
  return input.value;
}

function scalar(text) {
  return Number.isFinite(Number(text)) ? Number(text) : text;
}
