// The views of runs: three of the page's own, and every instrument of the server.

import { fields } from "./form.js";

const OWN = [
  { name: "glance", label: "at a glance", about: "several instruments on one text, as you type", files: "several instruments on one file", group: "run", text: true },
  { name: "write", label: "step by step", about: "write token by token, and see the alternatives", group: "run", text: true },
  { name: "run", label: "about the run", about: "the model, its training and its scores", group: "run" },
];
export const GROUPS = { run: "The run", text: "A text", long: "Longer looks", several: "Runs compared" };
const GLANCE = ["prediction", "caption", "transcript", "surprisal", "next", "alignment", "attention", "cells", "gates", "tokens"];
const MOST_AT_A_GLANCE = 4;

export class Views {
  constructor(found) {
    this.runs = new Map(found.runs.map((run) => [run.name, run]));
    const own = (each) => Object.fromEntries(Object.entries(each.schemas).map(([run, schema]) => [run, fields(schema)]));
    this.instruments = new Map(found.instruments.map((each) => [each.name, { ...each, fields: fields(each.schema), own: own(each) }]));
    const listed = [...this.instruments.values()].map((each) => ({
      name: each.name,
      label: each.name.replaceAll("_", " "),
      about: each.about,
      group: each.several ? "several" : each.quick ? "text" : "long",
    }));
    this.all = new Map([...OWN, ...listed].map((view) => [view.name, view]));
  }

  // The reason why a view does not apply to a run; null if it does.
  reason(name, run) {
    if (name === "write") return this.runs.get(run)?.writes ? null : `${run} does not write text step by step`;
    return this.instruments.get(name)?.reasons[run] ?? null;
  }

  // Whether a view takes a text from the run if none is given.
  hasText(name, run) {
    return this.instruments.get(name)?.own_text.includes(run) ?? false;
  }

  fieldsOf(name, run) {
    if (name === "glance") return this.shared(this.glance(run), run);
    if (name === "write") return this.shared(["next"], run);
    return this.instruments.get(name)?.own[run] || this.instruments.get(name)?.fields || []; // with the choices that this run offers
  }

  shared(names, run) {
    const first = names.map((each) => this.instruments.get(each)).find((each) => each?.fields.some((field) => field.name === "text"));
    return (first?.own[run] || first?.fields || []).filter((field) => ["text", "target", "into", "off"].includes(field.name));
  }

  glance(run) {
    const single = (name) => name !== "prediction" || !this.runs.get(run).pairs; // a pair of texts has its own view
    const fit = GLANCE.filter((name) => this.instruments.has(name) && this.reason(name, run) === null && single(name));
    return fit.slice(0, MOST_AT_A_GLANCE);
  }

  isQuick(name) {
    return this.instruments.get(name)?.quick ?? true;
  }
}
