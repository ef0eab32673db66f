// Classes with thumbnails, task by task.

import { ask } from "./api.js";
import { classDialog } from "./class_dialog.js";
import { h, spoken } from "./dom.js";
import { exemplar } from "./thumbnail.js";
import { count, date, percent } from "./words.js";

const THUMBS = 4;
const AT_ONCE = 4; // requests for thumbnails on their way
const SEARCHABLE = 12; // classes from which on there is a search field

let running = 0;
const queue = [];

/** Do jobs a few at a time, in order. */
function enqueue(job) {
  queue.push(job);
  next();
}

async function next() {
  if (running >= AT_ONCE || !queue.length) return;
  running += 1;
  await queue
    .shift()()
    .catch(() => {});
  running -= 1;
  next();
}

/** Return the classes of a model, grouped by task. */
export function classCards(model) {
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        seen.unobserve(entry.target);
        enqueue(() => drawThumbs(entry.target));
      }
    },
    { rootMargin: "200px" },
  );
  const groups = model.tasks.map((task) => {
    const classes = model.classes.filter((one) => one.task === task.number);
    const cards = classes.map((one) => card(one, seen));
    const title = h(
      "h3",
      {},
      `Task ${task.number}`,
      h(
        "span",
        { class: "group-line" },
        ` ${count(classes.length, "class", "classes")}${task.learned ? ` · ${date(task.learned)}` : ""}`,
      ),
    );
    return h("div", { class: "task" }, title, h("ul", { class: "class-cards" }, cards));
  });
  return [model.classes.length >= SEARCHABLE && search(groups), h("div", { class: "tasks" }, groups)];
}

function search(groups) {
  const said = h("p", { class: "help", "aria-live": "polite" });
  const field = h("input", { type: "search", id: "class-search", autocomplete: "off", placeholder: "Find a class" });
  field.addEventListener("input", () => {
    const text = field.value.trim().toLowerCase();
    let found = 0;
    for (const group of groups) {
      const cards = [...group.querySelectorAll(".class-card")];
      for (const one of cards) one.parentElement.hidden = !one.dataset.name.toLowerCase().includes(text);
      const left = cards.filter((one) => !one.parentElement.hidden).length;
      group.hidden = !left;
      found += left;
    }
    said.textContent = text ? count(found, "class", "classes") : "";
  });
  return h(
    "div",
    { class: "search" },
    h("label", { class: "hidden-text", for: "class-search" }, "Find a class"),
    field,
    said,
  );
}

function card(one, seen) {
  const thumbs = h("span", { class: "mosaic", data: { name: one.name } });
  seen.observe(thumbs);
  const line = [
    count(one.images ?? 0, "photo"),
    one.accuracy !== null && one.accuracy !== undefined ? `${percent(one.accuracy)} right` : null,
  ];
  return h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: "class-card",
        data: { name: one.name, key: `class-${one.name}` },
        on: { click: () => classDialog(one) },
      },
      thumbs,
      h(
        "span",
        { class: "class-card-text" },
        h("span", { class: "class-name" }, one.name),
        h("span", { class: "help" }, line.filter(Boolean).join(" · "), spoken(". Details, rename, merge, forget")),
      ),
    ),
  );
}

async function drawThumbs(place) {
  const { exemplars } = await ask(`v1/classes/${encodeURIComponent(place.dataset.name)}`);
  place.replaceChildren(...exemplars.slice(0, THUMBS).map((one) => exemplar(one.url, "")));
  place.classList.add("drawn");
}
