// Modal dialogs: a question with a way out, by the keyboard as well.

import { button, fresh, h } from "./dom.js";

/**
 * Ask in a modal dialog and return what `value()` gives when it is confirmed, or null when it is left.
 *
 * `wire(dialog, answer)` may connect further controls; `answer(value)` closes the dialog with that value.
 */
export function openDialog({
  title,
  content,
  confirm = null,
  kind = "primary",
  value = () => true,
  wire = null,
  wide = false,
}) {
  const heading = fresh("dialog");
  const leave = button(confirm ? "Cancel" : "Close", { kind: "plain", click: () => dialog.close() });
  const actions = h(
    "div",
    { class: "dialog-actions" },
    leave,
    confirm && h("button", { type: "submit", class: `button ${kind}` }, confirm),
  );
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: heading }, title),
    h("div", { class: "dialog-body" }, content),
    actions,
  );
  const dialog = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": heading }, form);
  const opener = document.activeElement;
  document.body.append(dialog);
  return new Promise((resolve) => {
    let result = null;
    const answer = (given) => {
      result = given;
      dialog.close();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = value();
      if (given !== undefined) answer(given); // undefined: something is still missing, which the dialog shows
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (opener?.isConnected) opener.focus({ preventScroll: true });
      resolve(result);
    });
    wire?.(dialog, answer);
    dialog.showModal();
    dialog.querySelector("[autofocus], input:not([type=checkbox]), .dialog-actions .button")?.focus();
  });
}

/** Ask for a yes; return whether it was given. */
export async function confirmed(title, text, yes, { kind = "danger" } = {}) {
  const content = [text].flat().map((part) => (typeof part === "string" ? h("p", {}, part) : part));
  return Boolean(await openDialog({ title, content, confirm: yes, kind }));
}
