// Tell the reader what happened: a short message at the edge of the page, read aloud by screen readers.

import { button, h, icon } from "./dom.js";

const SHOWN_MS = 7000;
const MOST = 2; // errors that stay side by side; of other messages the newest is enough

/** Show `text`; an error stays until it is closed, a message with an `action` ({text, run}) longer than others. */
export function say(text, { kind = "done", action = null } = {}) {
  const toasts = document.getElementById("toasts");
  const sign = kind === "error" ? "alert" : "check";
  const close = () => toast.remove();
  const act =
    action &&
    button(action.text, {
      kind: "quiet small",
      click: () => {
        close();
        action.run();
      },
    });
  const toast = h(
    "div",
    { class: `toast ${kind}` },
    icon(sign),
    h("p", {}, text),
    act,
    button("", { sign: "close", kind: "quiet small round", label: "Close this message", click: close }),
  );
  for (const old of toasts.querySelectorAll(".toast:not(.error)")) old.remove();
  while (toasts.children.length >= MOST) toasts.firstElementChild.remove();
  toasts.append(toast);
  if (kind === "error") document.getElementById("alerts").textContent = text;
  else setTimeout(close, action ? 2 * SHOWN_MS : SHOWN_MS);
}

/** Show what went wrong, in the words of the server where it has answered. */
export function complain(error, doing = "") {
  if (error?.name === "AbortError") return;
  if (error?.code === "token_refused" || error?.code === "token_declined") return;
  const text = error?.message ?? String(error);
  say(doing ? `${doing}: ${text}` : text, { kind: "error" });
}
