// One class: its exemplars, and rename, merge or forget, each after a confirmation.

import { ask } from "./api.js";
import { confirmed, openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";
import { nameTrouble } from "./correction.js";
import { complain, say } from "./say.js";
import { classNames, refresh } from "./shared.js";
import { exemplar } from "./thumbnail.js";
import { count, percent } from "./words.js";

/** Show a class, and do what is chosen there. */
export async function classDialog(one) {
  const thumbs = h("div", { class: "exemplars" }, h("div", { class: "skeleton block" }));
  ask(`v1/classes/${encodeURIComponent(one.name)}`).then(
    ({ exemplars }) =>
      thumbs.replaceChildren(
        ...(exemplars.length
          ? exemplars.map((each) => exemplar(each.url, ""))
          : [h("p", { class: "help" }, "The model keeps no photos of this class.")]),
      ),
    (error) => thumbs.replaceChildren(h("p", { class: "help bad" }, error.message)),
  );
  const facts = [
    `Task ${one.task}`,
    count(one.images ?? 0, "photo learned", "photos learned"),
    `${one.exemplars ?? 0} kept`,
    one.accuracy === null || one.accuracy === undefined ? "accuracy not measured" : `${percent(one.accuracy, 1)} right`,
  ];
  const todo = await openDialog({
    title: one.name,
    wide: true,
    content: [h("p", { class: "help" }, facts.join(" · ")), thumbs],
    wire: (dialog, answer) =>
      dialog
        .querySelector(".dialog-actions")
        .prepend(
          h(
            "div",
            { class: "row" },
            button("Rename", { sign: "pen", kind: "plain", click: () => answer("rename") }),
            classNames().length > 1 && button("Merge", { sign: "swap", kind: "plain", click: () => answer("merge") }),
            button("Forget", { sign: "trash", kind: "plain danger-text", click: () => answer("forget") }),
          ),
        ),
  });
  if (todo) await { rename, merge, forget }[todo](one.name);
}

async function send(name, action, json, done, failed) {
  try {
    const { version } = await ask(`v1/classes/${encodeURIComponent(name)}/${action}`, { method: "POST", json });
    say(`${done} The model is now version ${version}.`);
  } catch (error) {
    complain(error, failed);
  }
  await refresh().catch(() => {});
}

async function rename(name) {
  const others = classNames().filter((one) => one !== name);
  const help = h("p", { id: "rename-help", class: "help", "aria-live": "polite" }, "Nothing else changes.");
  const field = h("input", {
    type: "text",
    id: "rename-field",
    value: name,
    maxlength: "255",
    autocomplete: "off",
    "aria-describedby": "rename-help",
  });
  const to = await openDialog({
    title: `Rename “${name}”`,
    content: [h("label", { class: "label", for: "rename-field" }, "New name"), field, help],
    confirm: "Rename",
    value: () => {
      const typed = field.value.trim();
      const taken = others.includes(typed) ? `There is a class “${typed}” already. Merge the two instead.` : null;
      const trouble = taken ?? nameTrouble(typed, others) ?? (typed === name ? "This is its name already." : null);
      if (!trouble) return typed;
      help.textContent = trouble;
      help.classList.add("bad");
      field.focus();
      return undefined;
    },
    wire: () => queueMicrotask(() => field.select()),
  });
  if (to) await send(name, "rename", { to }, `“${name}” is called “${to}” now.`, "The class was not renamed");
}

async function merge(name) {
  const others = classNames().filter((one) => one !== name);
  const field = h(
    "select",
    { id: "merge-field" },
    others.map((one) => h("option", { value: one }, one)),
  );
  const into = await openDialog({
    title: `Merge “${name}” into another class`,
    content: [
      h("p", {}, `All photos of “${name}” become photos of the other class. “${name}” is a class no longer.`),
      h("label", { class: "label", for: "merge-field" }, "Merge into"),
      field,
    ],
    confirm: "Merge",
    kind: "danger",
    value: () => field.value,
  });
  if (into) await send(name, "merge", { into }, `“${name}” is a part of “${into}” now.`, "The classes were not merged");
}

async function forget(name) {
  const purge = h("input", { type: "checkbox", id: "purge" });
  const yes = await confirmed(
    `Forget “${name}”?`,
    [
      "The class and its photos are removed from the model. The version before stays, so you can go back to it.",
      h(
        "label",
        { class: "check", for: "purge" },
        purge,
        h("span", {}, "Remove it from the earlier version as well. This cannot be undone."),
      ),
    ],
    "Forget",
  );
  if (yes)
    await send(name, "forget", { purge: purge.checked }, `“${name}” is forgotten.`, "The class was not forgotten");
}
