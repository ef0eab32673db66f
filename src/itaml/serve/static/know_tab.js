// The Know tab: classes, tasks, accuracy over versions, confusion, versions.

import { ask } from "./api.js";
import { accuracyChart } from "./accuracy_chart.js";
import { classCards } from "./class_cards.js";
import { confusionTable } from "./confusion_table.js";
import { button, fill, h, icon } from "./dom.js";
import { refresh, shared, when } from "./shared.js";
import { versionList } from "./version_list.js";
import { percent, sentence } from "./words.js";

/** Build the tab; returns what to do when it is shown. */
export function knowTab(place) {
  const body = h("div", { class: "stack know" });
  place.append(body);
  let drawn = null; // the version that is drawn
  const show = () => {
    const model = shared.model;
    if (!model) {
      drawn = null;
      fill(body, shared.failed ? failure(shared.failed) : skeleton());
      return;
    }
    if (drawn === JSON.stringify(model)) return;
    drawn = JSON.stringify(model);
    if (model.empty) {
      fill(body, emptyNote(), model.versions?.length > 1 && panel("Versions", versionList(model)));
      return;
    }
    const confusion = h("div", { class: "confusion" }, h("div", { class: "skeleton block" }));
    fill(
      body,
      facts(model),
      panel("Classes", classCards(model)),
      panel("Accuracy over versions", accuracyChart(model.history)),
      panel("Confusion", confusion),
      panel("Versions", versionList(model)),
    );
    loadConfusion(confusion);
  };
  when("model", show);
  show();
  return { opened: () => refresh().catch(() => {}) };
}

const panel = (title, content) => h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), content);

const skeleton = () =>
  h(
    "div",
    { class: "stack", "aria-busy": "true" },
    h("p", { class: "hidden-text" }, "Loading the model"),
    h("div", { class: "skeleton block" }),
    h("div", { class: "skeleton block tall" }),
  );

function failure(error) {
  return h(
    "div",
    { class: "empty" },
    icon("alert"),
    h("p", { class: "empty-title" }, "The model could not be loaded"),
    h("p", {}, sentence(error.message)),
    button("Try again", { sign: "refresh", kind: "primary", click: () => refresh().catch(() => {}) }),
  );
}

const emptyNote = () =>
  h(
    "div",
    { class: "empty" },
    icon("grid"),
    h("p", { class: "empty-title" }, "The model knows no class yet"),
    h("p", {}, "What you teach appears here: classes with photos, accuracy, and every version."),
    h("a", { class: "button primary", href: "#teach" }, icon("book"), h("span", {}, "Teach classes")),
  );

function facts(model) {
  const last = [...model.history].reverse().find((entry) => entry.accuracy !== null && entry.accuracy !== undefined);
  const images = model.classes.reduce((sum, one) => sum + (one.images ?? 0), 0);
  const entries = [
    ["Version", model.version],
    ["Classes", model.classes.length],
    ["Tasks", model.tasks.length],
    ["Photos learned", images.toLocaleString("en")],
    ["Accuracy", percent(last?.accuracy, 1)],
  ];
  const method = [model.method, model.backbone, model.image_size && `${model.image_size} pixels`]
    .filter(Boolean)
    .join(" · ");
  return h(
    "section",
    { class: "panel facts", "aria-label": "The model" },
    h(
      "dl",
      {},
      entries.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, String(value)))),
    ),
    h("p", { class: "help" }, method),
  );
}

async function loadConfusion(place) {
  try {
    fill(place, confusionTable(await ask("v1/confusion")));
  } catch (error) {
    fill(place, h("p", { class: "help bad" }, icon("alert"), sentence(error.message)));
  }
}
