// The token of the server: asked for when the server wants one, kept for this browser tab only.

import { button, h } from "./dom.js";
import { openDialog } from "./dialogs.js";

let open = null; // one question at a time, whatever number of requests wait for it

/** Ask for the token; return whether one was entered. `used` is the token that the server has just refused, if any. */
export function askToken(used) {
  const now = sessionStorage.getItem("token");
  if (now && now !== used) return Promise.resolve(true); // entered meanwhile
  open ??= question(Boolean(used)).finally(() => {
    open = null;
  });
  return open;
}

async function question(refused) {
  const field = h("input", {
    type: "password",
    id: "token-field",
    autocomplete: "off",
    required: true,
    spellcheck: "false",
    "aria-describedby": "token-help",
    "aria-invalid": refused ? "true" : null,
  });
  const said = refused ? "The server did not accept this token. Enter it again." : "Whoever started the server has it.";
  const answer = await openDialog({
    title: "Enter the token",
    content: [
      h("p", {}, "This server asks for a token."),
      h("label", { for: "token-field", class: "label" }, "Token"),
      field,
      h("p", { id: "token-help", class: refused ? "help bad" : "help" }, said),
    ],
    confirm: "Continue",
    value: () => field.value.trim(),
  });
  if (answer) sessionStorage.setItem("token", answer);
  return Boolean(answer);
}

/** Return a button that removes the token, if there is one. */
export function forgetToken(changed) {
  if (!sessionStorage.getItem("token")) return null;
  return button("Remove the token from this tab", {
    sign: "key",
    kind: "quiet small",
    click: () => {
      sessionStorage.removeItem("token");
      changed();
    },
  });
}
