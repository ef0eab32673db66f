// Start the page: tabs, the state of the connection, what every tab needs.

import { alive, connection, isReachable } from "./api.js";
import { collected, loadCollection } from "./collection.js";
import { button, fill, h, icon, spinner } from "./dom.js";
import { dropAnywhere, hand } from "./drop_zone.js";
import { findJob, isLearning } from "./jobs.js";
import { knowTab } from "./know_tab.js";
import { loadNamed, resumeNaming } from "./naming.js";
import { nameTab } from "./name_tab.js";
import { fromPaste } from "./photos.js";
import { complain } from "./say.js";
import { refresh, shared, when } from "./shared.js";
import { teachTab } from "./teach_tab.js";
import { forgetToken } from "./token.js";
import { count } from "./words.js";

const TITLES = { name: "Name", teach: "Teach", know: "Know" };
const RETRY_MS = 2500;

const place = (id) => document.getElementById(id);
const current = () => (location.hash.slice(1) in TITLES ? location.hash.slice(1) : "name");

const takers = {};
const opened = {};

/** Show the tab that the address names; Back and Forward of the browser walk through tabs. */
function showTab(moved) {
  const now = current();
  for (const name of Object.keys(TITLES)) {
    place(`tab-${name}`).hidden = name !== now;
    const link = document.querySelector(`[data-tab=${name}]`);
    if (name === now) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[now]} · ${shared.model?.name ?? "itaml"}`;
  opened[now]?.();
  if (!moved) return;
  scrollTo(0, 0);
  place(`title-${now}`).focus({ preventScroll: true });
}

function showModel() {
  const { model, failed } = shared;
  place("model-name").textContent = model?.name ?? "itaml";
  const said = model?.empty ? "no classes yet" : model && count(model.classes.length, "class", "classes");
  place("model-line").textContent = model
    ? `version ${model.version} · ${said}`
    : failed
      ? "not loaded"
      : "Loading the model…";
  document.title = `${TITLES[current()]} · ${model?.name ?? "itaml"}`;
  const version = shared.session ? `itaml ${shared.session.version}` : "";
  fill(place("foot"), h("p", {}, version), forgetToken(showModel));
}

function showBadge() {
  const link = document.querySelector("[data-tab=teach]");
  link.querySelector(".badge")?.remove();
  const number = collected().length;
  if (isLearning())
    link.append(h("span", { class: "badge busy" }, h("span", { class: "hidden-text" }, "learning"), spinner()));
  else if (number)
    link.append(
      h("span", { class: "badge" }, String(number), h("span", { class: "hidden-text" }, " photos collected")),
    );
}

/** Say that the server does not answer, and look for it until it does. */
function watchConnection() {
  const banner = place("banner");
  let timer = null;
  const look = async () => {
    if (await alive()) return;
    clearTimeout(timer);
    timer = setTimeout(look, RETRY_MS);
  };
  const lost = () => {
    const now = button("Try now", { kind: "plain small", click: look });
    fill(
      banner,
      icon("wifi"),
      h("p", {}, "The server does not answer. What you have here is kept, and goes on when it is back."),
      now,
    );
    banner.hidden = false;
    clearTimeout(timer);
    timer = setTimeout(look, RETRY_MS);
  };
  connection.addEventListener("lost", lost);
  connection.addEventListener("found", () => {
    clearTimeout(timer);
    banner.hidden = true;
    banner.replaceChildren();
    load();
  });
  addEventListener("offline", look);
  addEventListener("online", look);
}

/** Load the model, the running learn and what waits; the banner speaks if the server does not answer. */
async function load() {
  try {
    await refresh();
    if (!isLearning()) await Promise.race([findJob(), new Promise((resolve) => setTimeout(resolve, 1000))]);
    resumeNaming();
  } catch (error) {
    if (error.status === 503)
      setTimeout(load, RETRY_MS); // the server is starting, and the tabs say so
    else if (!error.offline) complain(error, "The model could not be loaded");
  }
}

async function start() {
  for (const link of document.querySelectorAll("[data-icon]")) link.prepend(icon(link.dataset.icon));
  place("skip").addEventListener("click", () => place(`title-${current()}`).focus());
  takers.name = nameTab(place("name-body"));
  const teach = teachTab(place("teach-body"));
  takers.teach = (photos) => teach.take(photos);
  opened.teach = teach.opened;
  const know = knowTab(place("know-body"));
  opened.know = () => shared.model && isReachable() && know.opened();
  dropAnywhere(() => (document.querySelector("dialog[open]") ? null : (takers[current()] ?? null)));
  addEventListener("paste", (event) => {
    const found = takers[current()] && !document.querySelector("dialog[open]") ? fromPaste(event) : null;
    if (!found) return;
    event.preventDefault();
    hand(found, takers[current()]);
  });
  when("model", showModel);
  when("collected", showBadge);
  when("job", showBadge);
  watchConnection();
  await Promise.all([loadCollection(), loadNamed()]);
  addEventListener("hashchange", () => showTab(true));
  showTab(false);
  await load();
}

start();
