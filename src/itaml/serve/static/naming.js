// The photos of the Name tab and their predictions, kept over a reload.

import { ServerError, upload } from "./api.js";
import { batches, tooLarge } from "./batches.js";
import { drop, keep, keepSetting, kept, newId, setting } from "./keep.js";
import { complain } from "./say.js";
import { limits, shared, tell } from "./shared.js";
import { release } from "./thumbnail.js";

const AT_ONCE = 8; // photos in a request when each is named alone: results appear as they come

export const naming = { mode: "alone", busy: false, done: 0, total: 0, split: 0 };
let items = []; // {id, name, blob, alone, joint, was, version, failed, redo}
let again = false;
let waiting = false; // the server did not answer: go on when it is back

/** Load what was there before the page was closed, and name what is not named yet. */
export async function loadNamed() {
  naming.mode = await setting("mode", "alone");
  items = (await kept("named")).sort((a, b) => (a.id < b.id ? -1 : 1));
  tell("named");
}

/** Return all photos with their predictions. */
export const named = () => items;

/** Return what is shown for a photo: its prediction in the chosen mode, or alone while that is not there. */
export const shown = (item) => (naming.mode === "alone" ? item.alone : (item.joint ?? item.alone));

/** Return the class that a photo had alone, or by an earlier version of the model; null if it has not changed. */
export function changedFrom(item) {
  const now = shown(item)?.class ?? null;
  if (now === null) return null;
  const before = naming.mode !== "alone" && item.joint ? item.alone?.class : item.was;
  return before && before !== now ? before : null;
}

/** Return whether some predictions are of another version of the model. */
export const isStale = () =>
  shared.model !== null && !naming.busy && items.some((item) => item.alone && item.version !== shared.model.version);

/** Add photos and name them. */
export function addPhotos(photos) {
  const blank = { alone: null, joint: null, was: null, version: null, failed: null };
  const added = photos.map(({ file }) => ({ id: newId(), name: file.name || "photo", blob: file, ...blank }));
  items = [...items, ...added];
  keep("named", added);
  return nameAll();
}

/** Change a photo. */
export function update(item, changes) {
  Object.assign(item, changes);
  keep("named", [item]);
}

/** Remove photos. */
export function forgetItems(ids) {
  items = items.filter((item) => !ids.includes(item.id));
  drop("named", ids);
  release(ids);
  tell("named");
  if (naming.mode !== "alone" && items.length) nameAll(); // the others belong to a smaller group now
}

/** Choose whether photos are named alone, as a group, or as a sequence. */
export function setMode(mode) {
  naming.mode = mode;
  for (const item of items) item.joint = null;
  keepSetting("mode", mode);
  tell("named");
  return nameAll();
}

/** Name everything again, and remember what it was called before. */
export function nameAgain() {
  for (const item of items) Object.assign(item, { redo: true, failed: null }); // old names stay until then
  return nameAll();
}

/** Name what is not named yet; a call during a run lets it run once more. */
export async function nameAll() {
  if (naming.busy) {
    again = true;
    return;
  }
  naming.busy = true;
  try {
    do {
      again = false;
      await nameOnce();
    } while (again);
    waiting = false;
  } catch (error) {
    waiting = error.offline ?? false;
    if (!waiting) complain(error, "The photos could not be named");
  } finally {
    naming.busy = false;
    tell("named");
  }
}

/** Go on with what waited for the server. */
export const resumeNaming = () =>
  waiting || items.some((item) => (item.redo || !item.alone) && !item.failed) ? nameAll() : null;

async function nameOnce() {
  for (const item of items) item.failed = item.alone ? null : tooLarge(item.blob, limits());
  const fresh = items.filter((item) => (item.redo || !item.alone) && !item.failed);
  await predict(fresh, "alone", batches(fresh, limits(), AT_ONCE));
  if (naming.mode === "alone" || again) return;
  const whole = items.filter((item) => item.alone && !item.alone.error);
  const parts = batches(whole, limits());
  naming.split = parts.length;
  await predict(whole, naming.mode, parts);
}

async function predict(all, mode, parts) {
  Object.assign(naming, { done: 0, total: all.length });
  for (const part of parts) {
    tell("named");
    const alive = part.filter((item) => items.includes(item));
    if (!alive.length) continue;
    await predictPart(alive, mode);
    naming.done += part.length;
    if (mode !== "alone" && naming.mode !== mode) return; // another mode was chosen meanwhile
  }
}

async function predictPart(part, mode) {
  const form = new FormData();
  for (const item of part) form.append("images", item.blob, item.name);
  let answer;
  try {
    answer = await upload(`v1/predict?mode=${mode}&top=3`, form);
  } catch (error) {
    if (!(error instanceof ServerError) || error.offline || [401, 429, 503].includes(error.status)) throw error;
    if (mode !== "alone") throw error;
    if (part.length > 1) {
      for (const item of part) await predictPart([item], mode); // one bad file must not hide the others
      return;
    }
    part[0].failed = error.message;
    keep("named", part);
    return;
  }
  part.forEach((item, place) => {
    const found = answer.predictions[place];
    const was = item.redo ? (item.alone?.class ?? null) : item.was;
    if (mode === "alone")
      Object.assign(item, { alone: found, version: answer.model_version, failed: null, was, redo: false });
    else if (naming.mode === mode) item.joint = found;
  });
  keep("named", part);
}
