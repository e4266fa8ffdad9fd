// What a run is, in a table.

import { element } from "./elements.js";

export function overview(run) {
  const rows = [
    ["folder", run.folder],
    ["recipe", run.recipe],
    ["family", run.family],
    ["task", `${run.task} (clew ${run.use})`],
    ["parameters", run.parameters.toLocaleString("en")],
    ...Object.entries(run.vocabularies).map(([role, size]) => [role, size]),
    ...(run.languages.length ? [["languages", run.languages.join(", ")]] : []),
    ...(run.heads.length ? [["attention heads", String(run.heads.length)]] : []),
    ["trained for", run.steps ? `${run.steps.toLocaleString("en")} steps` : "no steps here"],
    ...Object.entries(run.scores).map(([name, value]) => [name, Number(value).toPrecision(5)]),
  ];
  const settings = Object.entries(run.model).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
  return element("section", { class: "panel", "aria-label": run.name },
    element("div", { class: "head" }, element("h2", {}, run.name)),
    table(rows),
    element("details", {}, element("summary", {}, "the model's settings"), table(settings)));
}

function table(rows) {
  return element("div", { class: "scrolled", tabindex: 0 }, element("table", { class: "facts" }, element("tbody", {},
    ...rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value))))));
}
