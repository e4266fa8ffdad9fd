// Make a form from the JSON schema of an instrument's options, so that a new instrument needs no code here.

import { element } from "./elements.js";

// { name, kind, description, fallback, choices, low, high, together }
export function fields(schema) {
  const together = schema.choices; // rows of values that are valid together, by the names of options
  return Object.entries(schema.properties || {}).map(([name, declared]) => {
    const property = resolve(declared, schema);
    const variants = (property.anyOf || [property]).map((each) => resolve(each, schema));
    const type = variants.find((each) => each.type !== "null") || property;
    return {
      name,
      kind: type.enum || type.const !== undefined ? "choice" : type.type || "string",
      empty: variants.some((each) => each.type === "null"),
      words: variants.some((each) => each.type === "string" || each.enum),
      description: declared.description || property.description || "",
      fallback: declared.default,
      items: resolve(type.items || {}, schema).type || "string",
      several: resolve(type.items || {}, schema).enum || null,
      choices: (type.enum || (type.const === undefined ? [] : [type.const])).filter((choice) => choice !== ""),
      optional: Boolean(type.enum?.includes("")),
      together: together?.options.includes(name) ? together : null,
      low: type.minimum ?? type.exclusiveMinimum,
      high: type.maximum ?? type.exclusiveMaximum,
    };
  });
}

function resolve(declared, schema) {
  return declared.$ref ? schema.$defs[declared.$ref.split("/").at(-1)] : declared;
}

// The rows that match what is chosen in the options before a field.
function fitting(field, all, options) {
  const { options: names, rows } = field.together;
  const before = names.slice(0, names.indexOf(field.name));
  const said = before.map((name) => options[name] ?? all.find((each) => each.name === name)?.fallback ?? null);
  return rows.map((row, number) => ({ row, number })).filter(({ row }) => said.every((value, place) => value === null || value === row[place]));
}

// The choices of a field given those of other fields, each with its label; heads that are off are marked.
function choicesOf(field, all, options) {
  if (!field.together) return field.choices.map((choice) => [choice, String(choice)]);
  const at = field.together.options.indexOf(field.name);
  const fit = fitting(field, all, options);
  const last = at === field.together.options.length - 1;
  const off = (choice) => last && fit.filter(({ row }) => row[at] === choice).every(({ number }) => (options.off || []).includes(field.together.names[number]));
  return [...new Set(fit.map(({ row }) => row[at]))].map((choice) => [choice, off(choice) ? `${choice} (off)` : String(choice)]);
}

// The options without those that a run does not have, or that do not match the others.
export function possible(all, options) {
  const kept = { ...options };
  for (const field of all) {
    if (field.kind !== "choice" || kept[field.name] === undefined) continue;
    if (!choicesOf(field, all, kept).some(([choice]) => choice === kept[field.name])) delete kept[field.name];
  }
  return kept;
}

export function control(field, value, changed, all = [], options = {}) {
  const id = `option-${field.name}`;
  const shown = value === undefined ? field.fallback : value;
  const common = { id, name: field.name, "aria-describedby": `${id}-about` };
  let input;
  if (field.kind === "choice") {
    const optional = (field.empty && (field.fallback ?? null) === null) || field.optional; // the field may stay empty
    const choices = [...(optional ? [["", "\u2013"]] : []), ...choicesOf(field, all, options)];
    input = element("select", common, choices.map(([choice, name]) => element("option", { value: choice, selected: choice === shown }, name.replaceAll("_", " "))));
  } else if (field.kind === "boolean") {
    input = element("input", { ...common, type: "checkbox", checked: Boolean(shown) });
  } else if (field.kind === "array") {
    input = element("input", { ...common, type: "text", value: Array.isArray(shown) ? shown.join(", ") : shown ?? "", placeholder: field.items === "array" ? "[[a, b], ...]" : "a, b, ...", spellcheck: "false" });
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

// undefined: the instrument's default.
function taken(field, input) {
  if (field.kind === "boolean") return input.checked;
  const text = input.value.trim();
  if (text === "") return field.kind === "string" && !field.empty ? "" : undefined;
  if (field.kind === "array" && field.items === "array") return text; // the server parses lists of lists
  if (field.kind === "array") return text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => (field.items === "string" ? part : scalar(part)));
  if (field.kind === "choice") return field.choices.find((choice) => String(choice) === text);
  if (field.kind === "integer" || field.kind === "number") return scalar(text);
  return input.value;
}

function scalar(text) {
  return Number.isFinite(Number(text)) ? Number(text) : text;
}
