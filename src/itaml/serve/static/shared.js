// What all tabs share: the session, the model as the server last described it, and who wants to know of changes.

import { ask } from "./api.js";

export const shared = { session: null, model: null, failed: null };
const bus = new EventTarget();

/** Call `listener` on every event of this kind: "model", "collected", "named", "job". */
export const when = (kind, listener) => bus.addEventListener(kind, (event) => listener(event.detail));

/** Tell all listeners. */
export const tell = (kind, detail = null) => bus.dispatchEvent(new CustomEvent(kind, { detail }));

/** Ask the server what it is and what the model knows. */
export async function refresh() {
  try {
    shared.session ??= await ask("v1/session");
    shared.model = await ask("v1/model");
    shared.failed = null;
  } catch (error) {
    shared.failed = error;
  }
  tell("model");
  if (shared.failed) throw shared.failed;
}

/** Return the names of the classes that the model knows. */
export const classNames = () => (shared.model?.classes ?? []).map((one) => one.name);

/** Return the limits of a request. */
export const limits = () => shared.session?.limits ?? {};

/** Return the limits of a learn, which may be larger. */
export function learnLimits() {
  const { body_bytes, images, upload_bytes, upload_images } = limits();
  return { body_bytes: upload_bytes ?? body_bytes, images: upload_images ?? images };
}
