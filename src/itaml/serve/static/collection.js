// Photos collected for the next learn: dropped on the Teach tab, or corrected on the Name tab. Kept over a reload.

import { drop, keep, kept, newId } from "./keep.js";
import { tell } from "./shared.js";
import { release } from "./thumbnail.js";

// {id, label, name, blob, item, check}: `item` is the prediction that was corrected, `check` {state, reason}
let photos = [];

/** Load what was collected before the page was closed. */
export async function loadCollection() {
  photos = (await kept("collected")).sort((a, b) => (a.id < b.id ? -1 : 1));
  tell("collected");
}

/** Return all collected photos. */
export const collected = () => photos;

/** Return the photos of each class, in the order in which the classes came. */
export function byClass() {
  const classes = new Map();
  for (const photo of photos) {
    if (!classes.has(photo.label)) classes.set(photo.label, []);
    classes.get(photo.label).push(photo);
  }
  return classes;
}

/** Return the class under which a named photo is collected, or null. */
export const correctionOf = (item) => photos.find((photo) => photo.item === item.id)?.label ?? null;

/** Add files; each becomes a photo of the class `label`, or of its folder. Returns the new records. */
export function collect(files, label) {
  const added = files.map(({ file, folder }) => ({
    id: newId(),
    label: folder ?? label,
    name: file.name || "photo",
    blob: file,
    item: null,
    check: null,
  }));
  photos = [...photos, ...added];
  return saved(added);
}

/** Add the photo of a named item under the class that it really has; an earlier correction of it is replaced. */
export function collectCorrection(item, label) {
  const old = photos.find((photo) => photo.item === item.id);
  const record = { ...(old ?? { id: newId(), name: item.name, blob: item.blob, item: item.id }), label, check: null };
  photos = old ? photos.map((photo) => (photo === old ? record : photo)) : [...photos, record];
  return saved([record]);
}

/** Take back a correction. */
export const withdraw = (item) => remove(photos.filter((photo) => photo.item === item.id).map((photo) => photo.id));

/** Remove photos by id; returns the removed records. */
export function remove(ids) {
  const gone = photos.filter((photo) => ids.includes(photo.id));
  photos = photos.filter((photo) => !ids.includes(photo.id));
  const again = photos
    .filter((photo) => photo.check?.state === "duplicate")
    .map((photo) => ({ ...photo, check: null }));
  replace(again); // what it is a copy of may be gone
  drop("collected", ids);
  release(ids);
  tell("collected");
  return gone;
}

/** Put removed records back. */
export function restore(records) {
  const back = records.map((record) => ({ ...record }));
  photos = [...photos, ...back].sort((a, b) => (a.id < b.id ? -1 : 1));
  return saved(back);
}

/** Give all photos of one class another name; they join a class that has it already. */
export function relabel(from, to) {
  const changed = photos.filter((photo) => photo.label === from).map((photo) => ({ ...photo, label: to, check: null }));
  replace(changed);
  return saved(changed);
}

/** Note what the server found in each photo: a map from id to {state, reason}. */
export function noteChecks(found) {
  const changed = photos
    .filter((photo) => found.has(photo.id))
    .map((photo) => ({ ...photo, check: found.get(photo.id) }));
  replace(changed);
  return saved(changed);
}

function replace(records) {
  const fresh = new Map(records.map((record) => [record.id, record]));
  photos = photos.map((photo) => fresh.get(photo.id) ?? photo);
}

function saved(records) {
  keep("collected", records);
  tell("collected");
  return records;
}
