// Split uploads so that each request stays within the limits of the server. Photos are sent as they are.

import { bytes } from "./words.js";

const ROOM = 1024; // bytes of a part of a multipart body beside the file: boundary, headers, names
const DEFAULTS = { body_bytes: 32e6, images: 64 };

/** Split records with a `blob` each into lists that fit into one request, in order. */
export function batches(records, limits, most = Infinity) {
  const size = limits.body_bytes ?? DEFAULTS.body_bytes;
  const images = limits.images ?? DEFAULTS.images;
  const parts = [];
  let room = 0;
  for (const record of records) {
    const needs = record.blob.size + ROOM;
    const part = parts.at(-1);
    if (!part || part.length >= Math.min(images, most) || needs > room) {
      parts.push([record]);
      room = size - ROOM - needs;
    } else {
      part.push(record);
      room -= needs;
    }
  }
  return parts;
}

/** Split photos with a `label` each: a class stays whole where it fits, and classes share a request where they fit. */
export function lessons(photos, limits) {
  const classes = new Map();
  for (const photo of photos) classes.set(photo.label, [...(classes.get(photo.label) ?? []), photo]);
  const parts = [];
  for (const members of classes.values()) {
    const last = parts.at(-1);
    if (last && batches([...last, ...members], limits).length === 1) last.push(...members);
    else parts.push(...batches(members, limits));
  }
  return parts;
}

/** Return why a file cannot be sent at all, or null. */
export function tooLarge(blob, limits) {
  const most = limits?.body_bytes ?? DEFAULTS.body_bytes;
  if (blob.size + 2 * ROOM <= most) return null;
  return `This file has ${bytes(blob.size)}; the server takes at most ${bytes(most)} at once.`;
}
