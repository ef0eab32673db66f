// Correct a wrong name: the photo is collected for the next learn under the class that it really has.

import { collectCorrection, withdraw } from "./collection.js";
import { openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";
import { shown } from "./naming.js";
import { say } from "./say.js";
import { classNames } from "./shared.js";
import { thumbnail } from "./thumbnail.js";
import { alike } from "./words.js";

/** Say that the photo shows `label`. */
export function correct(item, label) {
  collectCorrection(item, label);
  say(`Collected as “${label}” for the next learn.`, { action: { text: "Undo", run: () => undo(item) } });
}

/** Take a correction back. */
export function undo(item) {
  withdraw(item);
  say("The correction is taken back.");
}

/** Return what is wrong with the name of a class that is typed, or null. `known` are names that it may equal. */
export function nameTrouble(text, known) {
  const name = text.trim();
  if (!name) return "Enter a name.";
  if (name.length > 255) return "A name has at most 255 characters.";
  if (alike(name) === "unknown") return "The model says “unknown” when it does not know; choose another name.";
  const twin = known.find((one) => one.normalize() !== name.normalize() && alike(one) === alike(name));
  return twin ? `There is a class “${twin}” already; write it the same way.` : null;
}

/** Ask for the right class, to pick or to type, and collect the photo under it. */
export async function chooseClass(item) {
  const found = shown(item);
  const field = h("input", {
    type: "text",
    id: "right-class",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    maxlength: "255",
    "aria-describedby": "right-help",
    placeholder: "Type to search, or a new class",
  });
  const help = h("p", { id: "right-help", class: "help", "aria-live": "polite" });
  const names = classNames().filter((name) => name !== found?.class);
  const options = h("div", { class: "options", role: "group", "aria-label": "Classes that the model knows" });
  const explain = () => {
    const text = field.value.trim();
    const trouble = text ? nameTrouble(text, classNames()) : null;
    help.textContent = trouble ?? (text && !classNames().includes(text) ? `“${text}” will be a new class.` : "");
    help.classList.toggle("bad", Boolean(trouble));
  };
  const offer = (answer) => {
    const text = alike(field.value);
    const fitting = names.filter((name) => alike(name).includes(text));
    options.replaceChildren(...fitting.map((name) => button(name, { kind: "option", click: () => answer(name) })));
    options.hidden = !fitting.length;
    explain();
  };
  const label = await openDialog({
    title: "Which class is it?",
    content: [
      h("div", { class: "asked" }, thumbnail(item, ""), h("p", { class: "file-name" }, item.name)),
      h("label", { for: "right-class", class: "label" }, "Class"),
      field,
      help,
      options,
    ],
    confirm: "Collect it",
    value: () => {
      const trouble = nameTrouble(field.value, classNames());
      if (trouble) {
        help.textContent = trouble;
        help.classList.add("bad");
        field.focus();
        return undefined;
      }
      return field.value.trim();
    },
    wire: (_, answer) => {
      offer(answer);
      field.addEventListener("input", () => offer(answer));
    },
  });
  if (label) correct(item, label);
}
