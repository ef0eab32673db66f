// A place to drop photos on, with buttons for those who do not drag: choose files, folders, or use the camera.

import { button, h, icon } from "./dom.js";
import { fromDrop, fromInput } from "./photos.js";
import { count } from "./words.js";
import { say } from "./say.js";

/** Return {zone, compact}: the element, and a function that makes it small once there are photos. */
export function dropZone({ title, hint, folders = false, camera = false, take }) {
  const files = chooser({ multiple: true }, take);
  const shot = chooser({ capture: "environment" }, take);
  const folder = chooser({ webkitdirectory: true }, take);
  const buttons = h(
    "div",
    { class: "row" },
    button("Choose photos", { sign: "image", kind: "primary", click: () => files.click(), "data-key": "choose" }),
    folders && button("Choose a folder", { sign: "folder", click: () => folder.click() }),
    camera && navigator.maxTouchPoints > 0 && button("Take a photo", { sign: "camera", click: () => shot.click() }),
  );
  const words = h(
    "div",
    { class: "zone-words" },
    h("p", { class: "zone-title" }, title),
    h("p", { class: "help" }, hint),
  );
  const zone = h("div", { class: "zone" }, icon("image"), words, buttons, files, shot, folder);
  return { zone, compact: (small) => zone.classList.toggle("small", small) };
}

function chooser(attributes, take) {
  const input = h("input", {
    type: "file",
    accept: attributes.webkitdirectory ? null : "image/*",
    hidden: true,
    tabindex: "-1",
    ...attributes,
  });
  input.addEventListener("change", () => hand(fromInput(input), take));
  return input;
}

/** Give photos to `take`, and say what was left out. */
export function hand({ photos, others }, take) {
  if (others)
    say(
      `${count(others, "file is not a photo", "files are not photos")} and ${others === 1 ? "was" : "were"} left out.`,
    );
  if (photos.length) take(photos);
  else if (!others) say("There were no photos in it.", { kind: "error" });
}

/** Let photos be dropped anywhere on the page; `taker()` returns what takes them, or null where nothing does. */
export function dropAnywhere(taker) {
  let depth = 0;
  const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const shade = (on) => document.body.classList.toggle("dragging", on);
  addEventListener("dragenter", (event) => {
    if (!holdsFiles(event) || !taker()) return;
    depth += 1;
    shade(true);
  });
  addEventListener("dragleave", (event) => {
    if (!holdsFiles(event)) return;
    depth = Math.max(0, depth - 1);
    if (!depth) shade(false);
  });
  addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  addEventListener("drop", async (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    depth = 0;
    shade(false);
    const take = taker();
    if (take) hand(await fromDrop(event.dataTransfer), take);
  });
}
