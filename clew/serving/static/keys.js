// Keyboard shortcuts, active everywhere except in fields.

import { element } from "./elements.js";

const KEYS = [
  ["/", "edit the text"],
  ["Escape", "leave the text, or close this list"],
  ["j, k", "next view, previous view"],
  ["Enter", "in a text: look now (Shift+Enter: new line)"],
  ["\u2190 \u2192 \u2191 \u2193", "move between heads, steps or tokens"],
  ["o", "switch the chosen head off or on"],
  ["s", "swap the two runs"],
  ["d", "theme: light, dark, or the system's"],
  ["Tab", "everything else: buttons, fields, marks in pictures"],
  ["?", "this list"],
];

// `actions` has a function for each name: view(by), walk(event), off(), swap(), theme(), focusText().
export function start(actions) {
  const dialog = document.getElementById("keys");
  const rows = KEYS.map(([key, what]) => element("tr", {}, element("th", { scope: "row" }, element("kbd", {}, key)), element("td", {}, what)));
  const close = element("button", { type: "button", onclick: () => dialog.close() }, "close");
  dialog.append(element("h2", {}, "Keys"), element("table", {}, element("tbody", {}, ...rows)), close);
  const show = () => (dialog.open ? dialog.close() : dialog.showModal());
  document.getElementById("help").addEventListener("click", show);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing) {
      if (event.key === "Escape") typing.blur();
      return;
    }
    const inside = event.target.closest(".clew-view [tabindex], .stepping") && event.key.startsWith("Arrow"); // a picture handles its own arrows
    if (inside || event.defaultPrevented || (dialog.open && event.key !== "?")) return;
    const act = {
      "/": actions.focusText,
      "?": show,
      j: () => actions.view(1),
      k: () => actions.view(-1),
      o: actions.off,
      s: actions.swap,
      d: actions.theme,
      ArrowLeft: () => actions.walk(event),
      ArrowRight: () => actions.walk(event),
      ArrowUp: () => actions.walk(event),
      ArrowDown: () => actions.walk(event),
    }[event.key];
    if (!act || act() === false) return;
    event.preventDefault();
  });
}
