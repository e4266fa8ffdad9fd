// Build elements from plain values. Texts always become text nodes.

export function element(name, attributes = {}, ...children) {
  const built = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (attribute.startsWith("on")) built.addEventListener(attribute.slice(2), value);
    else if (attribute in PROPERTIES) built[attribute] = value;
    else built.setAttribute(attribute, value === true ? "" : value);
  }
  built.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return built;
}

const PROPERTIES = { value: 1, checked: 1, disabled: 1, selected: 1, hidden: 1 };

const FORBIDDEN = "script, iframe, object, embed, link, meta, base, form, frame, portal";

// Show an instrument's picture. The server escapes all data; a picture with active content would be a bug, and is refused.
export function picture(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const all = [...template.content.querySelectorAll("*")];
  const active = all.some((each) => [...each.attributes].some(({ name, value }) => name.startsWith("on") || /^\s*javascript:/i.test(value)));
  if (active || template.content.querySelector(FORBIDDEN)) throw new Error("the picture contains active content and is not shown");
  return template.content;
}

// A token made visible: white space becomes signs, and nothing changes the text direction.
export function visible(token) {
  const shown = token.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g, (c) => SIGNS[c] || `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return shown.replace(/^ +| +$/g, (spaces) => "\u00b7".repeat(spaces.length)) || "\u2205";
}
const SIGNS = { "\n": "\u23ce", "\t": "\u21e5", "\r": "\u240d" };

export function hear(text) {
  document.getElementById("heard").textContent = text;
}
