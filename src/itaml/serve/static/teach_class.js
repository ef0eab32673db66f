// The collected photos of one class on the Teach tab.

import { checkAll } from "./checking.js";
import { relabel, remove, restore } from "./collection.js";
import { nameTrouble } from "./correction.js";
import { button, fresh, h, icon } from "./dom.js";
import { fromInput } from "./photos.js";
import { say } from "./say.js";
import { classNames } from "./shared.js";
import { thumbnail } from "./thumbnail.js";
import { count, sentence } from "./words.js";

const SIGNS = {
  duplicate: ["copy", "Copy"],
  known: ["check", "Known"],
  unreadable: ["alert", "Unreadable"],
  conflict: ["alert", "In two classes"],
};
const FOLDED = 24; // photos shown of a class before "Show all"
const unfolded = new Set();

/** Return the panel of a class; `take(photos, label)` adds further photos. */
export function classPanel(name, photos, take) {
  const id = fresh("class");
  const field = h("input", {
    type: "text",
    id,
    value: name,
    maxlength: "255",
    autocomplete: "off",
    spellcheck: "false",
    list: "class-list",
    "aria-describedby": `${id}-help`,
    placeholder: "Name of the class",
    data: { key: `name-${name}` },
  });
  field.addEventListener("change", () => renamed(name, field.value.trim()));
  const trouble = name ? nameTrouble(name, classNames()) : "Which class do these photos show?";
  const known = classNames().includes(name);
  const state = trouble ?? (known ? "The model knows this class: these photos are added to it." : "A new class.");
  const input = h("input", {
    type: "file",
    accept: "image/*",
    multiple: true,
    hidden: true,
    on: { change: () => take(fromInput(input).photos, name) },
  });
  const head = h(
    "div",
    { class: "class-head" },
    h("div", { class: "class-name-field" }, h("label", { class: "hidden-text", for: id }, "Class"), field),
    h("p", { class: "class-count" }, count(photos.length, "photo")),
    h(
      "div",
      { class: "row" },
      button("Add", {
        sign: "plus",
        kind: "plain",
        label: `Add photos to ${name || "this class"}`,
        click: () => input.click(),
      }),
      button("", {
        sign: "trash",
        kind: "quiet round",
        label: `Remove ${name || "these photos"}`,
        click: () => takeAway(photos),
      }),
    ),
    input,
  );
  const note = h("p", { class: trouble ? "help bad" : "help", id: `${id}-help` }, trouble && icon("alert"), state);
  const shown = unfolded.has(name) ? photos : photos.slice(0, FOLDED);
  const more =
    photos.length > shown.length &&
    button(`Show all ${photos.length}`, {
      kind: "plain small",
      click: (event) => {
        unfolded.add(name);
        event.target.closest(".class-panel").replaceWith(classPanel(name, photos, take));
      },
    });
  return h(
    "section",
    { class: "panel class-panel", "aria-label": name || "Photos without a class" },
    head,
    note,
    h("ul", { class: "thumbs" }, shown.map(tile)),
    more,
    troubles(photos),
  );
}

const tiles = new WeakMap(); // record -> element: a photo that has not changed is not drawn again

function tile(photo) {
  if (!tiles.has(photo)) tiles.set(photo, newTile(photo));
  return tiles.get(photo);
}

function newTile(photo) {
  const [sign, text] = SIGNS[photo.check?.state] ?? [];
  const mark =
    sign &&
    h("span", { class: `mark ${photo.check.state}`, title: photo.check.reason }, icon(sign), h("span", {}, text));
  const away = button("", {
    sign: "close",
    kind: "round over",
    label: `Remove ${photo.name}`,
    click: () => takeAway([photo]),
    "data-key": `x-${photo.id}`,
  });
  return h("li", { class: photo.item ? "tile corrected" : "tile" }, thumbnail(photo, photo.name), mark, away);
}

function troubles(photos) {
  const bad = photos.filter((photo) => SIGNS[photo.check?.state]);
  if (!bad.length) return null;
  const lines = bad.map((photo) =>
    h(
      "li",
      {},
      h("b", {}, photo.name),
      `: ${SIGNS[photo.check.state][1].toLowerCase()}`,
      photo.check.reason ? `. ${sentence(photo.check.reason)}` : "",
    ),
  );
  return h(
    "details",
    { class: "troubles" },
    h("summary", {}, `What was found (${bad.length})`),
    h("ul", { class: "notes" }, lines),
  );
}

function renamed(from, to) {
  if (!to || to === from) return;
  relabel(from, to);
  checkAll();
}

/** Remove photos, with a way back. */
export function takeAway(photos) {
  const gone = remove(photos.map((photo) => photo.id));
  say(`${count(gone.length, "photo")} removed.`, { action: { text: "Undo", run: () => restore(gone) } });
}
