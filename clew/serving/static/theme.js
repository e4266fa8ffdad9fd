// The theme: light, dark, or the system's; stored in this browser.

const ORDER = ["auto", "light", "dark"];
const SIGNS = { auto: "\u25d0", light: "\u2600", dark: "\u263e" };

export function start(button) {
  apply(button, stored());
  button.addEventListener("click", () => turn(button));
}

export function turn(button) {
  const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
  try {
    localStorage.setItem("clew-theme", next);
  } catch {
    document.documentElement.dataset.wanted = next; // a browser without storage
  }
  apply(button, next);
}

function stored() {
  try {
    const kept = localStorage.getItem("clew-theme");
    return ORDER.includes(kept) ? kept : "auto";
  } catch {
    return document.documentElement.dataset.wanted || "auto";
  }
}

function apply(button, theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = SIGNS[theme];
  button.setAttribute("aria-label", `colours: ${theme}`);
}
