// Keep photos, predictions and small settings over a reload, in the browser's own database.

import { say } from "./say.js";

const STORES = ["named", "collected", "settings", "files"];
let database = null;
let warned = false;
const written = new Set(); // ids of records whose file is in the database: it is written once

function opened() {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("itaml", 1);
    request.onupgradeneeded = () => STORES.forEach((name) => request.result.createObjectStore(name, { keyPath: "id" }));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return database;
}

/** Do `work(place)` in one transaction, `place(name)` being a store; return the result of the request it returns. */
async function within(stores, mode, work) {
  const base = await opened();
  return new Promise((resolve, reject) => {
    const transaction = base.transaction(stores, mode);
    const result = work((store) => transaction.objectStore(store));
    transaction.oncomplete = () => resolve(result?.result);
    transaction.onabort = () => reject(transaction.error);
    transaction.onerror = () => reject(transaction.error);
  });
}

async function attempt(work, otherwise) {
  try {
    return await work();
  } catch (error) {
    if (!warned) say(`This browser cannot keep photos over a reload (${error?.message ?? error}).`, { kind: "error" });
    warned = true;
    return otherwise;
  }
}

/** Return all records of a store, each with its file. */
export async function kept(store) {
  const all = (name) => attempt(() => within([name], "readonly", (place) => place(name).getAll()), []);
  const [records, files] = await Promise.all([all(store), all("files")]);
  const blobs = new Map(files.map(({ id, blob }) => [id, blob]));
  const whole = records.filter(({ id }) => blobs.has(id)).map((record) => ({ ...record, blob: blobs.get(record.id) }));
  for (const { id } of whole) written.add(id);
  return whole;
}

/** Write records, which have an `id` and a file `blob` each. */
export const keep = (store, records) =>
  attempt(
    () =>
      within([store, "files"], "readwrite", (place) => {
        for (const { blob, ...record } of records) {
          if (!written.has(record.id)) place("files").put({ id: record.id, blob });
          written.add(record.id);
          place(store).put(record);
        }
      }),
    undefined,
  );

/** Remove records by id. */
export const drop = (store, ids) =>
  attempt(
    () =>
      within([store, "files"], "readwrite", (place) => {
        for (const id of ids) {
          written.delete(id);
          place(store).delete(id);
          place("files").delete(id);
        }
      }),
    undefined,
  );

/** Return a setting, or `otherwise` if it was never kept. */
export async function setting(id, otherwise) {
  const found = await attempt(() => within(["settings"], "readonly", (place) => place("settings").get(id)), null);
  return found?.value ?? otherwise;
}

/** Keep a setting. */
export const keepSetting = (id, value) =>
  attempt(() => within(["settings"], "readwrite", (place) => place("settings").put({ id, value })), undefined);

let serial = 0;
const base36 = (number, digits) => number.toString(36).padStart(digits, "0");

/** Return a new id; ids sort in the order in which they were made. */
export const newId = () => `${base36(Date.now(), 9)}-${base36(serial++, 5)}-${Math.random().toString(36).slice(2, 8)}`;
