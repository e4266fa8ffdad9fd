// The list of views, and the choice of runs.

import { element } from "./elements.js";
import { GROUPS } from "./views.js";

export function menu(views, state, go) {
  const entries = (group) =>
    [...views.all.values()].filter((view) => view.group === group).map((view) => {
      const reason = views.reason(view.name, state.run);
      const current = view.name === state.view;
      return element("li", {}, element("a", {
        href: `#${new URLSearchParams({ view: view.name, run: state.run })}`,
        "data-view": view.name,
        class: reason === null ? "" : "unfit",
        title: reason ?? view.about,
        "aria-current": current ? "page" : null,
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          go(view.name);
        },
      }, view.label));
    });
  const { media } = views.runs.get(state.run);
  return Object.entries(GROUPS).flatMap(([group, title]) => {
    const items = entries(group);
    return items.length ? [element("h2", {}, group === "text" && media ? `A ${media}` : title), element("ul", {}, ...items)] : [];
  });
}

// The view after or before the current one that has something to show.
export function neighbour(views, state, by) {
  const order = Object.keys(GROUPS).flatMap((group) => [...views.all.values()].filter((view) => view.group === group));
  const fit = order.filter((view) => view.name === state.view || views.reason(view.name, state.run) === null).map((view) => view.name);
  return fit[(fit.indexOf(state.view) + by + fit.length) % fit.length];
}

export function runPicker(select, views, chosen, { none }) {
  const option = (name, label) => element("option", { value: name, selected: name === chosen }, label);
  select.replaceChildren(...(none ? [option("", none)] : []), ...[...views.runs.keys()].map((name) => option(name, name)));
  select.value = chosen;
}
