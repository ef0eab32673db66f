// Talk to the server: JSON, uploads with progress, server-sent events. All addresses are relative to the page.

import { askToken } from "./token.js";

export const connection = new EventTarget(); // "lost" and "found"
let reachable = true;

/** What the server, or the way to it, said instead of an answer. */
export class ServerError extends Error {
  constructor(message, { status = 0, code = "", requestId = null } = {}) {
    super(message);
    Object.assign(this, { status, code, requestId });
  }

  /** Whether no server answered. */
  get offline() {
    return this.status === 0;
  }
}

const headers = (extra = {}) => {
  const token = sessionStorage.getItem("token");
  return token ? { ...extra, Authorization: `Bearer ${token}` } : extra;
};

function mark(now) {
  if (now !== reachable) connection.dispatchEvent(new Event(now ? "found" : "lost"));
  reachable = now;
}

/** Return whether the last request was answered. */
export const isReachable = () => reachable;

function explained(status, body, requestId) {
  let said = null;
  try {
    said = JSON.parse(body).error;
  } catch {
    // a proxy, not the server: there is only the status
  }
  const message = said?.message ?? `The server answered with status ${status}.`;
  return new ServerError(message, { status, code: said?.code ?? "", requestId: said?.request_id ?? requestId });
}

const LOST = "The server does not answer. Nothing is lost; try again when it is back.";

/** Send once, without asking for a token. */
async function send(path, options) {
  let response;
  try {
    response = await fetch(path, {
      ...options,
      headers: headers(options.headers),
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    mark(false);
    throw new ServerError(LOST);
  }
  mark(true);
  if (!response.ok) throw explained(response.status, await response.text(), response.headers.get("X-Request-Id"));
  return response;
}

/** Do `request` and, if it lacks the token, ask for one and do it again, as often as a new token is entered. */
async function withToken(request) {
  for (;;) {
    const used = sessionStorage.getItem("token");
    try {
      return await request();
    } catch (error) {
      if (error.status !== 401) throw error;
      const entered = await askToken(used);
      if (!entered)
        throw new ServerError("This needs the token of the server.", { status: 401, code: "token_declined" });
    }
  }
}

/** Return the JSON that the server answers to `path`. */
export async function ask(path, { method = "GET", json = null, signal = null } = {}) {
  const options = { method, signal };
  if (json !== null)
    Object.assign(options, { body: JSON.stringify(json), headers: { "Content-Type": "application/json" } });
  const response = await withToken(() => send(path, options));
  return response.json();
}

/** Return whether the server is alive, without a message if it is not. */
export async function alive() {
  try {
    await send("healthz", {});
    return true;
  } catch (error) {
    return !error.offline;
  }
}

/** Return the bytes of an image that only a reader with the token may see. */
export async function imageOf(path) {
  return (await withToken(() => send(path, {}))).blob();
}

/** Send a form with files; `progress` is called with the share that has left, from 0 to 1. */
export function upload(path, form, { progress = () => {}, signal = null } = {}) {
  return withToken(() => sendForm(path, form, progress, signal));
}

function sendForm(path, form, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => {
      mark(true);
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(explained(request.status, request.responseText, request.getResponseHeader("X-Request-Id")));
    };
    request.onerror = () => {
      mark(false);
      reject(new ServerError(LOST));
    };
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}

/** Call `show` with every state of a job until its stream ends; return its last state, or null if none came. */
export async function follow(id, show, signal) {
  const response = await withToken(() => send(`v1/jobs/${encodeURIComponent(id)}/events`, { signal }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let last = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return last;
    text = (text + value).replaceAll("\r\n", "\n");
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5))
        .join("\n");
      if (!data.trim()) continue;
      last = JSON.parse(data);
      show(last);
      if (/^event: *end$/m.test(event)) return last;
    }
  }
}
