// Small views of photos: of files in this browser, and of images that the server keeps.

import { imageOf } from "./api.js";
import { h, icon } from "./dom.js";
import { shared } from "./shared.js";

const addresses = new Map(); // id of a record -> object URL, made once

/** Return an `img` of a record {id, name, blob}, or a sign where the browser cannot show it (such as HEIC or TIFF). */
export function thumbnail(record, alt) {
  if (!addresses.has(record.id)) addresses.set(record.id, URL.createObjectURL(record.blob));
  return framed(addresses.get(record.id), alt);
}

/** Forget the object URLs of records that are gone, which frees their memory. */
export function release(ids) {
  for (const id of ids) {
    if (addresses.has(id)) URL.revokeObjectURL(addresses.get(id));
    addresses.delete(id);
  }
}

/** Return an `img` of an exemplar of the server. */
export function exemplar(address, alt, size = 192) {
  const path = `${address.replace(/^\//, "")}?size=${size}&v=${shared.model?.version ?? 0}`;
  if (!shared.session?.token_required?.read) return framed(path, alt);
  const frame = framed(null, alt);
  imageOf(path).then(
    (blob) => {
      frame.querySelector("img").src = URL.createObjectURL(blob);
    },
    () => frame.classList.add("broken"),
  );
  return frame;
}

function framed(source, alt) {
  const frame = h("span", { class: "photo" });
  const image = h("img", { alt, loading: "lazy", decoding: "async", draggable: "false", src: source });
  image.addEventListener("error", () => {
    frame.classList.add("broken");
    frame.replaceChildren(icon("image"), alt ? h("span", { class: "hidden-text" }, alt) : "");
  });
  frame.append(image);
  return frame;
}
