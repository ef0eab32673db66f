// One photo of the Name tab: what it is, how probable, what else it could be, and how to correct it.

import { correctionOf } from "./collection.js";
import { button, h, icon, spoken } from "./dom.js";
import { chooseClass, correct, undo } from "./correction.js";
import { changedFrom, forgetItems, nameAll, shown, update } from "./naming.js";
import { thumbnail } from "./thumbnail.js";
import { percent, sentence } from "./words.js";

/** Return a bar of a probability; the number is beside it as text. */
const bar = (share) => h("span", { class: "bar", style: { "--share": share }, "aria-hidden": "true" });

const cards = new Map(); // id -> {key, card}: a card is made again only when it shows something else

/** Return the card of a photo. */
export function nameCard(item) {
  const found = shown(item);
  const changed = changedFrom(item);
  const said = correctionOf(item);
  const key = JSON.stringify([found, changed, said, item.failed]);
  if (cards.get(item.id)?.key !== key) cards.set(item.id, { key, card: newCard(item, found, changed, said) });
  return cards.get(item.id).card;
}

function newCard(item, found, changed, said) {
  const state = item.failed || found?.error ? "unreadable" : !found ? "waiting" : found.known ? "known" : "unknown";
  const classes = ["card", "named", state, changed && "changed", said !== null && "corrected"]
    .filter(Boolean)
    .join(" ");
  const remove = button("", {
    sign: "close",
    kind: "round over",
    label: `Remove ${item.name}`,
    click: () => forgetItems([item.id]),
    "data-key": `x-${item.id}`,
  });
  const body = h(
    "div",
    { class: "card-body" },
    verdict(item, found, state),
    note(changed, said),
    footer(item, found, state, said),
  );
  return h(
    "li",
    { class: classes, data: { id: item.id } },
    h("div", { class: "card-photo" }, thumbnail(item, item.name), remove),
    body,
  );
}

function verdict(item, found, state) {
  const file = h("p", { class: "file-name", title: item.name }, item.name);
  if (state === "waiting") return [h("p", { class: "verdict skeleton" }, spoken("Being named"), " "), file];
  if (state === "unreadable") {
    return [
      h("p", { class: "verdict bad" }, icon("alert"), h("span", {}, "Not readable")),
      h("p", { class: "help" }, sentence(item.failed ?? found.error)),
      file,
    ];
  }
  const best = found.top?.[0];
  const share = found.probability ?? best?.probability ?? 0;
  const name =
    state === "unknown"
      ? h("span", { class: "tag unknown-tag" }, icon("question"), h("span", { class: "class-name" }, "unknown"))
      : h("span", { class: "class-name" }, found.class);
  const number = state === "unknown" ? null : h("span", { class: "share" }, percent(share));
  const under =
    state === "unknown" ? h("p", { class: "help" }, "It looks like no class that the model knows.") : bar(share);
  return [h("p", { class: "verdict" }, name, number), under, file];
}

function note(changed, said) {
  if (said !== null) {
    return h(
      "p",
      { class: "note done" },
      icon("check"),
      h("span", {}, "You said ", h("b", {}, said || "another class"), ": collected for teaching"),
    );
  }
  return changed && h("p", { class: "note" }, icon("swap"), h("span", {}, "Changed: was ", h("b", {}, changed)));
}

function footer(item, found, state, said) {
  if (state === "waiting") return null;
  if (state === "unreadable") {
    const retry = () => {
      update(item, { failed: null, alone: null });
      nameAll();
    };
    return (
      item.failed &&
      h("div", { class: "choices" }, button("Try again", { sign: "refresh", kind: "plain small", click: retry }))
    );
  }
  if (said !== null) {
    return h(
      "div",
      { class: "choices" },
      button("Undo", {
        sign: "back",
        kind: "plain small",
        label: `Undo the correction of ${item.name}`,
        click: () => undo(item),
        "data-key": `undo-${item.id}`,
        "data-after": `other-${item.id}`,
      }),
    );
  }
  const others = (found.top ?? []).filter((one) => one.class !== found.class).slice(0, state === "unknown" ? 3 : 2);
  const rows = others.map((one) =>
    h(
      "button",
      {
        type: "button",
        class: "choice",
        title: `It is ${one.class}`,
        data: { key: `is-${one.class}-${item.id}`, after: `undo-${item.id}` },
        on: { click: () => correct(item, one.class) },
      },
      spoken("It is "),
      h("span", { class: "choice-name" }, one.class),
      h("span", { class: "share" }, percent(one.probability)),
      bar(one.probability),
    ),
  );
  const other = button("Another class…", {
    sign: "pen",
    kind: "plain small wide",
    click: () => chooseClass(item),
    "data-key": `other-${item.id}`,
    "data-after": `undo-${item.id}`,
  });
  const title = h(
    "p",
    { class: "choices-title" },
    state === "unknown" ? "Closest classes" : "Wrong? Choose the right class",
  );
  return h("div", { class: "choices" }, title, rows, other);
}
