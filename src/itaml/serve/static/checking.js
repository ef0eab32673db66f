// Let the server look at collected photos before a learn: which are copies, known already, or not readable.

import { upload } from "./api.js";
import { batches, tooLarge } from "./batches.js";
import { collected, noteChecks } from "./collection.js";
import { equalFiles } from "./photos.js";
import { complain } from "./say.js";
import { limits, tell } from "./shared.js";

const UNNAMED = "photos"; // the class that stands for one without a name yet; nothing is learned by a check

export const checking = { busy: false, refused: false };
let again = false;

/** Check what is not checked yet. */
export async function checkAll() {
  if (checking.busy) {
    again = true;
    return;
  }
  checking.busy = true;
  tell("collected");
  try {
    do {
      again = false;
      await checkOnce();
    } while (again);
    checking.refused = false;
  } catch (error) {
    checking.refused = true;
    if (!error.offline) complain(error, "The photos could not be checked");
  } finally {
    checking.busy = false;
    tell("collected");
  }
}

async function checkOnce() {
  const copies = await equalFiles(collected());
  const local = new Map();
  for (const photo of collected()) {
    const large = tooLarge(photo.blob, limits());
    const twin = copies.get(photo.id);
    if (large) local.set(photo.id, { state: "unreadable", reason: large });
    else if (twin) local.set(photo.id, asCopy(photo, twin));
  }
  const news = new Map([...local].filter(([id]) => !collected().find((photo) => photo.id === id)?.check));
  if (news.size) noteChecks(news);
  for (const part of batches(
    collected().filter((photo) => !photo.check),
    limits(),
  ))
    noteChecks(await asked(part));
}

function asCopy(photo, twin) {
  if (twin.label === photo.label) return { state: "duplicate", reason: `The same photo as ${twin.name}.` };
  return { state: "conflict", reason: `The same photo is in “${twin.label || "photos without a class"}” as well.` };
}

async function asked(part) {
  const { images } = await upload("v1/check", learnForm(part));
  return new Map(part.map((photo, place) => [photo.id, { state: images[place].state, reason: images[place].reason }]));
}

/** Return photos with their classes as the form of `v1/check` and `v1/learn`. */
export function learnForm(part) {
  const form = new FormData();
  for (const photo of part) {
    form.append("images", photo.blob, photo.name);
    form.append("classes", photo.label.trim() || UNNAMED);
  }
  return form;
}

/** Return whether a photo would add nothing: it cannot be read, or is a copy within its class. */
export const isUseless = (photo) => ["unreadable", "duplicate"].includes(photo.check?.state);
