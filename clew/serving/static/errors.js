// Link errors of an evaluation to a view of the model on that text.

import { element } from "./elements.js";

// `visit(view, options)`: a pair of texts has its own view.
export function link(panel, found, visit) {
  const errors = found.facts.errors;
  if (!Array.isArray(errors)) return;
  const rows = panel.body.querySelectorAll(".part-table:first-of-type tbody tr");
  if (rows.length) panel.body.querySelector(".part-table:first-of-type thead tr").append(element("th", {}));
  for (const [number, { source, second, into }] of errors.entries()) {
    if (!rows[number] || !source) continue;
    const open = () => visit(second === undefined ? "glance" : "prediction", { text: source, second, into, target: undefined });
    rows[number].append(element("td", {}, element("button", { type: "button", class: "link", onclick: open }, "look")));
  }
}
