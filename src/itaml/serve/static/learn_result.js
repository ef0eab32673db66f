// The result of a learn: accuracy of each class before and after, what was forgotten, what was left out.

import { h, icon } from "./dom.js";
import { count, duration, list, percent, points, sentence } from "./words.js";

const NOTICED = 0.0005; // smaller differences of accuracy are shown as none

/** Return the result as elements. */
export function learnResult(result) {
  return [h("p", { class: "result-line" }, inShort(result)), forgotten(result), comparison(result), leftOut(result)];
}

function inShort({ new_classes: news = [], refreshed_classes: refreshed = [], images = {}, version, seconds }) {
  const total = Object.values(images).reduce((sum, number) => sum + number, 0);
  const said = [];
  if (news.length) said.push(`New: ${list(news)}.`);
  if (refreshed.length) said.push(`More photos for ${list(refreshed)}.`);
  if (!said.length) said.push("Nothing was new, so the model did not change.");
  const took = typeof seconds === "number" ? `, in ${duration(seconds)}` : "";
  return `${said.join(" ")} ${count(total, "photo")}${took}. The model is now version ${version}.`;
}

function forgotten({ forgotten: lost = {}, before }) {
  const names = Object.keys(lost)
    .filter((name) => lost[name] > NOTICED)
    .sort((a, b) => lost[b] - lost[a]);
  if (!Object.keys(before?.classes ?? {}).length) return null;
  if (!names.length) return h("p", { class: "note done" }, icon("check"), h("span", {}, "Nothing was forgotten."));
  const parts = names.map((name) => `${name} (${points(-lost[name])} points)`);
  return h("p", { class: "note warn" }, icon("alert"), h("span", {}, `Forgotten: ${list(parts, 6)}.`));
}

function comparison({ before = {}, after = {}, images = {}, new_classes: news = [] }) {
  const names = Object.keys({ ...before.classes, ...after.classes, ...images });
  if (!names.length) return null;
  const first = !Object.keys(before.classes ?? {}).length; // nothing to compare with
  const row = (name, old, now, kind) =>
    h(
      "tr",
      { class: kind },
      h("th", { scope: "row" }, name),
      first ? null : h("td", {}, percent(old, 1)),
      h("td", {}, percent(now, 1)),
      first ? null : changeCell(old, now, news.includes(name)),
    );
  const rows = names.map((name) => row(name, before.classes?.[name], after.classes?.[name], null));
  const titles = first ? ["Class", "Accuracy"] : ["Class", "Before", "After", "Change"];
  const words = first ? "" : ", before and after; the change is in percentage points";
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accuracy of each class" },
    h(
      "table",
      { class: first ? "numbers narrow" : "numbers" },
      h("caption", {}, `Accuracy on images that were not trained on${words}.`),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          titles.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h("tbody", {}, row("All classes", before.accuracy, after.accuracy, "total"), rows),
    ),
  );
}

/** Return the cell of a change; its direction is a sign and a colour. */
function changeCell(old, now, isNew) {
  if (typeof old !== "number" || typeof now !== "number") return h("td", { class: "change" }, isNew ? "new" : "–");
  const kind = Math.abs(now - old) <= NOTICED ? "" : now > old ? "up" : "down";
  return h("td", { class: `change ${kind}` }, { up: "▲ ", down: "▼ " }[kind] ?? "", points(now - old));
}

function leftOut({ duplicates = 0, unreadable = [], notes = [] }) {
  const lines = [];
  if (duplicates)
    lines.push(h("li", {}, `${count(duplicates, "photo was", "photos were")} known already and left out.`));
  for (const { name, reason } of unreadable) lines.push(h("li", {}, h("b", {}, name), `: ${reason}`));
  for (const text of notes) lines.push(h("li", {}, sentence(text)));
  if (!lines.length) return null;
  return h(
    "details",
    { open: lines.length < 6 },
    h("summary", {}, `Notes (${lines.length})`),
    h("ul", { class: "notes" }, lines),
  );
}
