// Tables of facts about runs; tables side by side have the same rows.

import { element } from "./elements.js";

export function overview(runs) {
  const rows = alike(runs.map(facts));
  const settings = alike(runs.map((run) => Object.entries(run.model).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])));
  return runs.map((run, number) => element("section", { class: "panel", "aria-label": run.name },
    element("div", { class: "head" }, element("h2", {}, run.name)),
    table(rows[number]),
    element("details", {}, element("summary", {}, "the model's settings"), table(settings[number]))));
}

function facts(run) {
  return [
    ["folder", run.folder],
    ["recipe", run.recipe],
    ["family", run.family],
    ["task", `${run.task} (clew ${run.use})`],
    ["parameters", run.parameters.toLocaleString("en")],
    ...Object.entries(run.vocabularies).map(([role, size]) => [role, size]),
    ...(run.languages.length ? [["languages", run.languages.join(", ")]] : []),
    ...(run.heads.length || run.pruned ? [["attention heads", `${run.heads.length}${run.pruned ? `, ${run.pruned} pruned` : ""}`]] : []),
    ["trained for", run.steps ? `${run.steps.toLocaleString("en")} steps` : "no steps here"],
    ...Object.entries(run.scores).map(([name, value]) => [name, `${Number(value).toPrecision(5)} ${run.units[name] || ""}`.trim()]),
  ];
}

// The rows of all runs in one order; a row that a run lacks is "none".
function alike(lists) {
  const names = [...new Set(lists.flatMap((rows) => rows.map(([name]) => name)))];
  return lists.map((rows) => names.map((name) => [name, new Map(rows).get(name) ?? "none"]));
}

function table(rows) {
  return element("div", { class: "scrolled", tabindex: 0 }, element("table", { class: "facts" }, element("tbody", {},
    ...rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value))))));
}
