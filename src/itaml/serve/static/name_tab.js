// The Name tab: photos in, names out.

import { correctionOf } from "./collection.js";
import { csv, download, rows } from "./csv.js";
import { confirmed } from "./dialogs.js";
import { button, fill, h, icon, spinner } from "./dom.js";
import { dropZone } from "./drop_zone.js";
import { nameCard } from "./name_card.js";
import {
  addPhotos,
  changedFrom,
  forgetItems,
  isStale,
  named,
  nameAgain,
  nameAll,
  naming,
  setMode,
  shown,
} from "./naming.js";
import { say } from "./say.js";
import { shared, when } from "./shared.js";
import { count } from "./words.js";

const MODES = [
  ["alone", "Each on its own", "Every photo is named by itself."],
  [
    "continuum",
    "These belong together",
    "All photos show classes of one task, which the model finds from all of them together.",
  ],
  [
    "stream",
    "In order",
    "The photos are a sequence: the model finds where the task changes, and names each group together.",
  ],
];

/** Build the tab; returns what takes dropped and pasted photos. */
export function nameTab(place) {
  const take = (photos) => addPhotos(photos);
  const { zone, compact } = dropZone({
    title: "Drop photos here",
    hint: "Or paste them, or choose them.",
    camera: true,
    take,
  });
  const modes = modeSwitch();
  const summary = h("div", { class: "summary" });
  const results = h("div", { class: "results" });
  const live = h("p", { class: "hidden-text", "aria-live": "polite" });
  place.append(zone, modes.element, summary, live, results);
  const show = () => {
    const items = named();
    const empty = shared.model?.empty ?? false;
    compact(items.length > 0);
    modes.element.hidden = !items.length;
    modes.show();
    fill(summary, items.length ? summaryOf(items) : null);
    fill(results, items.length ? groups(items) : welcome(empty));
    const text = naming.busy || !items.length ? "" : summaryText(items);
    if (live.textContent !== text) live.textContent = text;
  };
  let asked = false;
  const later = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      show();
    });
  };
  ["named", "model", "collected"].forEach((kind) => when(kind, later));
  show();
  return take;
}

function welcome(empty) {
  if (!empty) return null;
  return h(
    "div",
    { class: "empty" },
    icon("book"),
    h("p", { class: "empty-title" }, "The model knows no class yet"),
    h("p", {}, "Teach it two classes or more, with a few photos of each, and it will name photos here."),
    h("a", { class: "button primary", href: "#teach" }, icon("book"), h("span", {}, "Teach classes")),
  );
}

function modeSwitch() {
  const help = h("p", { class: "help", id: "mode-help", "aria-live": "polite" });
  const inputs = MODES.map(([mode]) =>
    h("input", {
      type: "radio",
      name: "mode",
      value: mode,
      id: `mode-${mode}`,
      on: { change: () => setMode(mode) },
    }),
  );
  const options = MODES.map(([mode, text], place) =>
    h("label", { class: "segment", for: `mode-${mode}` }, inputs[place], h("span", {}, text)),
  );
  const element = h(
    "fieldset",
    { class: "modes", "aria-describedby": "mode-help" },
    h("legend", { class: "hidden-text" }, "How the photos belong together"),
    h("div", { class: "segments" }, options),
    help,
  );
  const show = () => {
    inputs.forEach((input) => {
      input.checked = input.value === naming.mode;
    });
    const text = MODES.find(([mode]) => mode === naming.mode)[2] + effect();
    if (help.textContent !== text) help.textContent = text;
  };
  return { element, show };
}

/** Return what the mode has changed, as a sentence. */
function effect() {
  if (naming.mode === "alone" || naming.busy || !named().some((item) => item.joint)) return "";
  const changed = named().filter(changedFrom).length;
  const split =
    naming.split > 1 ? ` They were too many for one request, so they were named in ${naming.split} parts.` : "";
  return ` ${changed ? count(changed, "name has changed", "names have changed") : "No name has changed"}.${split}`;
}

function summaryText(items) {
  const found = items.map(shown);
  const unreadable = items.filter((item, place) => item.failed || found[place]?.error).length;
  const unknown = found.filter((one) => one && !one.error && !one.known).length;
  const parts = [count(items.length, "photo"), `${found.filter((one) => one?.known && !one.error).length} named`];
  if (unknown) parts.push(`${unknown} unknown`);
  if (unreadable) parts.push(`${unreadable} not readable`);
  return parts.join(" · ");
}

function summaryOf(items) {
  const corrected = items.filter((item) => correctionOf(item) !== null).length;
  const left = naming.busy
    ? h("p", { class: "working" }, spinner(), `Naming ${Math.min(naming.done, naming.total)} of ${naming.total}…`)
    : h("p", {}, summaryText(items));
  const actions = h(
    "div",
    { class: "row" },
    button("Download CSV", { sign: "download", kind: "plain", click: save, "data-key": "csv" }),
    button("Clear", { sign: "trash", kind: "plain", click: clear, "data-key": "clear" }),
  );
  const stale =
    isStale() &&
    h(
      "div",
      { class: "notice slim" },
      icon("refresh"),
      h("p", {}, `The model has changed since: it is now version ${shared.model.version}.`),
      button("Name again", { kind: "primary small", click: nameAgain, "data-key": "again" }),
    );
  const teach =
    corrected > 0 &&
    h(
      "div",
      { class: "notice slim calm" },
      icon("check"),
      h("p", {}, `${count(corrected, "photo is", "photos are")} collected for the next learn.`),
      h("a", { class: "button plain small", href: "#teach" }, "Go to Teach"),
    );
  const open = items.filter((item) => !item.alone && !item.failed).length;
  const later =
    open > 0 &&
    !naming.busy &&
    h(
      "div",
      { class: "notice slim" },
      icon("refresh"),
      h("p", {}, `${count(open, "photo is", "photos are")} not named yet.`),
      button("Name now", { kind: "primary small", click: nameAll, "data-key": "now" }),
    );
  return [h("div", { class: "summary-row" }, left, actions), later, stale, teach];
}

function save() {
  download("predictions.csv", csv(rows(named(), shown, correctionOf)));
  say(`predictions.csv has ${count(named().length, "row")}.`);
}

async function clear() {
  const items = named();
  const text = "The photos and their names are removed from this page. What is collected for teaching stays.";
  if (items.length > 3 && !(await confirmed(`Clear ${count(items.length, "photo")}?`, text, "Clear"))) return;
  forgetItems(items.map((item) => item.id));
  say("Cleared.");
}

function groups(items) {
  if (naming.mode !== "stream" || !items.some((item) => item.joint))
    return h("ul", { class: "cards" }, items.map(nameCard));
  const parts = [];
  for (const item of items) {
    const group = item.joint?.group ?? null;
    if (!parts.length || parts.at(-1).group !== group) parts.push({ group, items: [] });
    parts.at(-1).items.push(item);
  }
  return parts.map(({ group, items: members }, place) =>
    h(
      "section",
      { class: "group", "aria-label": `Group ${place + 1}` },
      h(
        "h2",
        { class: "group-title" },
        group === null ? "Not in a group" : `Group ${place + 1}`,
        h(
          "span",
          { class: "group-line" },
          ` ${count(members.length, "photo")}${members[0].joint?.task ? ` · task ${members[0].joint.task}` : ""}`,
        ),
      ),
      h("ul", { class: "cards" }, members.map(nameCard)),
    ),
  );
}
