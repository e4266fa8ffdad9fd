// From an error of an evaluation to the model at work on its text.

import { element } from "./elements.js";

export function link(panel, found, visit) {
  const errors = found.facts.errors;
  if (!Array.isArray(errors)) return;
  const rows = panel.body.querySelectorAll(".part-table:first-of-type tbody tr");
  if (rows.length) panel.body.querySelector(".part-table:first-of-type thead tr").append(element("th", {}));
  for (const [number, { source, second, into, wrong }] of errors.entries()) {
    if (!rows[number] || !source || wrong) continue; // where words are marked, the text is another
    const open = () => visit({ text: source, second, into, target: undefined });
    rows[number].append(element("td", {}, element("button", { type: "button", class: "link", onclick: open }, "look")));
  }
}
