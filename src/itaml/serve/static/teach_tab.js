// The Teach tab: collect photos of classes, check them, learn, and see what came of it.

import { checkAll, checking, isUseless } from "./checking.js";
import { byClass, collect, collected, remove } from "./collection.js";
import { nameTrouble } from "./correction.js";
import { confirmed } from "./dialogs.js";
import { button, fill, h, icon, spinner } from "./dom.js";
import { dropZone } from "./drop_zone.js";
import { endedPanel, jobPanel } from "./job_panel.js";
import { isLearning, lastResult, learning, teach } from "./jobs.js";
import { say } from "./say.js";
import { classNames, shared, when } from "./shared.js";
import { classPanel, takeAway } from "./teach_class.js";
import { count, list } from "./words.js";

/** Build the tab; returns {take, opened}: what takes dropped photos, and what to do when the tab is shown. */
export function teachTab(place) {
  const field = h("input", {
    type: "text",
    id: "class-field",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    maxlength: "255",
    list: "class-list",
    "aria-describedby": "class-help",
    placeholder: "For example: coffee cup",
  });
  const help = h(
    "p",
    { class: "help", id: "class-help" },
    "Not needed for folders: the name of a folder is the class of its photos.",
  );
  const known = h("datalist", { id: "class-list" });
  const take = (photos, label = field.value.trim()) => {
    const added = collect(photos, label);
    const names = [...new Set(added.map((photo) => photo.label))];
    const where = names.some((name) => name === "") ? "Give them a class below." : `Collected for ${list(names)}.`;
    say(`${count(added.length, "photo")} added. ${where}`, {
      action: { text: "Undo", run: () => remove(added.map((one) => one.id)) },
    });
    field.value = "";
    checkAll();
  };
  const { zone, compact } = dropZone({
    title: "Drop photos or folders here",
    hint: "Several folders at once: one class each.",
    folders: true,
    camera: true,
    take,
  });
  const add = h(
    "section",
    { class: "panel add", "aria-labelledby": "add-title" },
    h("h2", { id: "add-title" }, "Add photos"),
    h("div", { class: "add-class" }, h("label", { class: "label", for: "class-field" }, "Class"), field, known, help),
    zone,
  );
  const job = jobPanel();
  const top = h("div", { class: "stack" });
  const classes = h("div", { class: "classes stack" });
  const start = h("div", { class: "start" });
  place.append(top, add, classes, start);
  const show = () => {
    const busy = isLearning();
    const ended = lastResult();
    if (busy) job.show();
    const parts = busy ? [job.element] : ended ? [endedPanel(ended)] : [];
    if (!(busy && top.firstElementChild === job.element)) fill(top, parts);
    known.replaceChildren(...classNames().map((name) => h("option", { value: name })));
    compact(collected().length > 0);
    fill(
      classes,
      collected().length ? [...byClass()].map(([name, photos]) => classPanel(name, photos, take)) : emptyNote(),
    );
    fill(start, collected().length ? startBar(busy) : null);
    start.hidden = !collected().length;
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
  ["collected", "model", "job"].forEach((kind) =>
    when(kind, kind === "job" ? () => (isLearning() && learning.job ? progressed(job, top, later) : later()) : later),
  );
  show();
  return { take, opened: () => collected().some((photo) => !photo.check) && checkAll() };
}

/** Bring only the progress up to date while a learn runs, so that nothing else of the tab moves. */
function progressed(job, top, later) {
  if (top.firstElementChild === job.element) job.show();
  else later();
}

function emptyNote() {
  if (!shared.model?.empty) return null;
  return h(
    "div",
    { class: "empty" },
    icon("folder"),
    h("p", { class: "empty-title" }, "The first lesson"),
    h("p", {}, "Start with two classes or more and about ten photos of each. More classes can follow at any time."),
  );
}

/** Return what stops a learn, as a sentence, or null. */
function trouble() {
  const names = [...byClass().keys()];
  if (names.includes("")) return "Give every group of photos a class.";
  for (const name of names) {
    const wrong = nameTrouble(name, [...classNames(), ...names]);
    if (wrong) return wrong;
  }
  if (!collected().some((photo) => !isUseless(photo))) return "There is no photo to learn from.";
  return null;
}

function startBar(busy) {
  const useless = collected().filter(isUseless);
  const names = [...byClass().keys()].filter(Boolean);
  const wrong = trouble();
  const good = collected().length - useless.length;
  const words = [
    h("p", { class: "start-title" }, `${count(good, "photo")} of ${count(byClass().size, "class", "classes")}`),
  ];
  if (wrong) words.push(h("p", { class: "help", id: "start-help" }, wrong));
  else if (checking.busy) words.push(h("p", { class: "help working" }, spinner(), "Checking the photos…"));
  else if (checking.refused)
    words.push(
      h(
        "p",
        { class: "help" },
        "The photos are not checked yet. ",
        button("Check now", { kind: "link", click: checkAll }),
      ),
    );
  else if (shared.model?.empty && names.length < 2)
    words.push(
      h("p", { class: "help" }, "With one class only, the model has nothing to distinguish it from: add another one."),
    );
  else words.push(h("p", { class: "help" }, `Adds to ${list(names, 3)}.`));
  const clean =
    useless.length > 0 &&
    !busy &&
    button(`Remove ${count(useless.length, "unneeded file")}`, {
      sign: "trash",
      kind: "plain",
      click: () => takeAway(useless),
      "data-key": "clean",
    });
  const go = button(busy ? "Learning…" : "Teach", {
    sign: "book",
    kind: "primary",
    click: teach,
    "data-key": "teach",
    disabled: Boolean(wrong) || busy,
    "aria-describedby": wrong ? "start-help" : null,
  });
  return [
    h("div", { class: "start-words", "aria-live": "polite" }, words),
    h("div", { class: "row" }, clean, !busy && discard(), go),
  ];
}

function discard() {
  return button("Discard all", {
    kind: "plain",
    "data-key": "discard",
    click: async () => {
      const all = collected();
      if (
        !(await confirmed(
          "Discard all collected photos?",
          "They are removed from this page. The model stays as it is.",
          "Discard",
        ))
      )
        return;
      takeAway(all);
    },
  });
}
