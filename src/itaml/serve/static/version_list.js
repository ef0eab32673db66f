// Versions of the model, with the way back to an earlier one.

import { ask } from "./api.js";
import { confirmed } from "./dialogs.js";
import { button, h, icon } from "./dom.js";
import { complain, say } from "./say.js";
import { refresh } from "./shared.js";
import { date, list, percent } from "./words.js";

/** Return the versions, newest first: those that are kept can be returned to. */
export function versionList(model) {
  const kept = new Map(model.versions.map((one) => [one.version, one]));
  const entries = new Map(model.history.map((entry) => [entry.version, entry]));
  const numbers = [...new Set([...kept.keys(), ...entries.keys()])].sort((a, b) => b - a);
  const rows = numbers.map((number) => row(number, kept.get(number), entries.get(number), model));
  return [
    h("p", { class: "help" }, "Every change makes a new version. Versions that are still on disk can be returned to."),
    h("ol", { class: "versions" }, rows),
  ];
}

function row(number, kept, entry, model) {
  const current = number === model.version;
  const what = entry
    ? `${entry.action[0].toUpperCase()}${entry.action.slice(1)}: ${list(entry.classes ?? [], 4) || "–"}`
    : number === 0
      ? "The empty model"
      : "";
  const tag = current ? h("span", { class: "tag" }, icon("check"), "in use") : null;
  const back =
    kept &&
    !current &&
    button("Go back", {
      sign: "back",
      kind: "plain",
      label: `Go back to version ${number}`,
      click: () => rollback(number),
      "data-key": `back-${number}`,
    });
  return h(
    "li",
    { class: current ? "current" : null },
    h(
      "div",
      { class: "version-text" },
      h("p", { class: "version-title" }, `Version ${number}`, tag),
      h("p", {}, what),
      h(
        "p",
        { class: "help" },
        [
          (kept?.date ?? entry?.date) ? date(kept?.date ?? entry.date) : null,
          entry?.accuracy !== null && entry?.accuracy !== undefined ? `accuracy ${percent(entry.accuracy, 1)}` : null,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
    back,
  );
}

async function rollback(version) {
  const yes = await confirmed(
    `Go back to version ${version}?`,
    "What was learned or changed since then is undone. Everyone who uses this model gets that version.",
    "Go back",
  );
  if (!yes) return;
  try {
    await ask("v1/rollback", { method: "POST", json: { version } });
    say(`The model is back at version ${version}.`);
  } catch (error) {
    complain(error, "The model did not go back");
  }
  await refresh().catch(() => {});
}
