// Picture and sound inputs: chosen, dropped, or one of the samples. A file is sent once; afterwards the server's id stands for it.

import { Overtaken, get, post } from "./ask.js";
import { element } from "./elements.js";

const known = new Map(); // the server's descriptions of files, by id
const played = new Map(); // object URLs of sounds

export function remember(found) {
  known.set(found.file, found);
  return found;
}

async function described(id) {
  return known.get(id) ?? remember(await get(`api/files/${encodeURIComponent(id)}`));
}

async function send(file, run) {
  return remember(await post("api/files", "file", { runs: [run.name], name: file.name, data: await base64(file) }));
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("the browser cannot read this file"));
    reader.readAsDataURL(file);
  });
}

// The field of a run that reads files, in place of the text; `changed(id)` is called with each new file.
export function fileField(run, id, changed) {
  const shown = element("div", { class: "shown" });
  const state = element("p", { class: "state", role: "status" });
  const input = element("input", { id: "text", type: "file", accept: ACCEPTED[run.media], "aria-label": `choose a ${run.media}` });
  const samples = run.samples.map((each) => sample(each, each.file === id, () => changed(each.file)));
  const drop = element("div", { class: "drop" },
    shown,
    element("div", { class: "chooser" },
      element("div", { class: "buttons" }, element("label", { class: "button" }, `choose a ${run.media}`, input), element("span", { class: "faint" }, "or drop one here")),
      state,
      samples.length ? element("div", { class: "buttons samples" }, element("span", { class: "faint" }, "samples"), ...samples) : null));
  const refuse = (sentence) => {
    drop.classList.add("refused");
    state.textContent = sentence;
  };
  const take = async (file) => {
    if (!file) return;
    drop.classList.remove("refused");
    state.textContent = "sending";
    try {
      changed((await send(file, run)).file);
    } catch (error) {
      if (!(error instanceof Overtaken)) refuse(error.message);
    }
  };
  input.addEventListener("change", () => take(input.files[0]));
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, () => drop.classList.add("over"));
  drop.addEventListener("dragleave", (event) => drop.contains(event.relatedTarget) || drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    drop.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  if (id) show(shown, id).catch((error) => refuse(error.message));
  return element("div", { class: "text" }, element("label", { for: "text" }, run.media), drop);
}

// A file dropped outside the field must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

function sample(found, isChosen, choose) {
  remember(found);
  const inside = found.picture ? element("img", { src: found.picture, alt: found.name, title: found.name }) : found.name.replace(/\.\w+$/, "");
  return element("button", { type: "button", class: found.picture ? "sample pictured" : "sample", "aria-pressed": String(isChosen), onclick: choose }, inside);
}

async function show(place, id) {
  const draw = (found, ...more) => place.replaceChildren(
    ...(found.picture ? [element("img", { src: found.picture, alt: found.name })] : []),
    element("div", { class: "named" }, element("strong", {}, found.name), element("span", { class: "faint" }, found.about), ...more));
  if (known.has(id)) draw(known.get(id));
  const found = await described(id);
  draw(found, ...(found.plays ? [element("audio", { controls: true, preload: "metadata", src: await address(found), "aria-label": found.name })] : []));
}

async function address(found) {
  if (!played.has(found.file)) {
    const answer = await fetch(`api/files/${encodeURIComponent(found.file)}/content`);
    if (!answer.ok) throw new Error("the server no longer has this sound; choose it again");
    played.set(found.file, URL.createObjectURL(new Blob([await answer.arrayBuffer()], { type: found.plays })));
  }
  return played.get(found.file);
}

const ACCEPTED = { picture: "image/*", sound: "audio/*,.flac,.ogg,.opus,.au,.aif,.aiff" };
