// Keep photos, predictions and small settings over a reload, in the browser's own database.

import { say } from "./say.js";

const STORES = ["named", "collected", "settings"];
let database = null;
let warned = false;

function opened() {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("itaml", 1);
    request.onupgradeneeded = () => STORES.forEach((name) => request.result.createObjectStore(name, { keyPath: "id" }));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return database;
}

async function within(store, mode, work) {
  const base = await opened();
  return new Promise((resolve, reject) => {
    const transaction = base.transaction(store, mode);
    const result = work(transaction.objectStore(store));
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

/** Return all records of a store. */
export const kept = (store) => attempt(() => within(store, "readonly", (place) => place.getAll()), []);

/** Write records, which have an `id` each. */
export const keep = (store, records) =>
  attempt(
    () =>
      within(store, "readwrite", (place) => {
        for (const record of records) place.put(record);
      }),
    undefined,
  );

/** Remove records by id. */
export const drop = (store, ids) =>
  attempt(
    () =>
      within(store, "readwrite", (place) => {
        for (const id of ids) place.delete(id);
      }),
    undefined,
  );

/** Return a setting, or `otherwise` if it was never kept. */
export async function setting(id, otherwise) {
  const found = await attempt(() => within("settings", "readonly", (place) => place.get(id)), null);
  return found?.value ?? otherwise;
}

/** Keep a setting. */
export const keepSetting = (id, value) => keep("settings", [{ id, value }]);

let serial = 0;
const base36 = (number, digits) => number.toString(36).padStart(digits, "0");

/** Return a new id; ids sort in the order in which they were made. */
export const newId = () => `${base36(Date.now(), 9)}-${base36(serial++, 5)}-${Math.random().toString(36).slice(2, 8)}`;
