// Build elements. Text from users and files is only ever set as text, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

const ICONS = {
  alert: "M12 4 2.8 20h18.4zM12 10v4.5M12 17.4v.1",
  arrow: "M4 12h15M13 6l6 6-6 6",
  back: "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  book: "M12 6.5C10 5 7 4.5 3.5 4.5v13C7 17.5 10 18 12 19.5c2-1.5 5-2 8.5-2v-13C17 4.5 14 5 12 6.5zM12 6.5v13",
  camera: "M4 8h3.5L9 5.5h6L16.5 8H20v11H4zM12 16.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4z",
  check: "M5 12.5 10 17.5 19.5 7",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M8.5 8.5h11v11h-11zM15.5 8.5v-4h-11v11h4",
  download: "M12 4v11M7 10.5l5 5 5-5M4.5 20h15",
  eye: "M2.5 12S6 5.5 12 5.5s9.5 6.5 9.5 6.5-3.5 6.5-9.5 6.5S2.5 12 2.5 12zM14.8 12a2.8 2.8 0 1 0-5.6 0 2.8 2.8 0 0 0 5.6 0",
  file: "M6 3.5h8l4.5 4.5v12.5H6zM14 3.5V8h4.5",
  folder: "M3.5 6h6l2 2.5h9v10.5h-17z",
  grid: "M4 4h6.5v6.5H4zM13.5 4H20v6.5h-6.5zM4 13.5h6.5V20H4zM13.5 13.5H20V20h-6.5z",
  image: "M4 5h16v14H4zM4 16l4.5-4.5 4 4 2.5-2.5 5 5M15.5 9.5v.1",
  key: "M14.5 9.5a5 5 0 1 0-4.4 5L11.5 16H14v2.5h2.5V21H20v-3.5zM8.5 8.5v.1",
  pen: "M4.5 19.5 5.5 15 16 4.5 19.5 8 9 18.5z",
  plus: "M12 5v14M5 12h14",
  question: "M8.5 9a3.5 3.5 0 1 1 5.2 3c-1.2.7-1.7 1.3-1.7 2.8M12 18.4v.1",
  refresh: "M19.5 12a7.5 7.5 0 1 1-2.2-5.3L20 9.4M20 4v5.4h-5.4",
  swap: "M4 8.5h14M14 4.5l4 4-4 4M20 15.5H6M10 11.5l-4 4 4 4",
  trash: "M4.5 7h15M9 7V4.5h6V7M6.5 7l1 12.5h9l1-12.5",
  wifi: "M3 3l18 18M5 11.5a10 10 0 0 1 3.5-2.2M19 11.5a10 10 0 0 0-6-2.8M8.5 15a5 5 0 0 1 6.5-.3M12 18.9v.1",
};

/** Return a new element: `on` holds listeners, `data` the dataset, `style` custom properties, the rest attributes. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Return a new SVG element. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, attributes);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== false));
  return element;
}

function apply(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "style") for (const [name, part] of Object.entries(value)) element.style.setProperty(name, part);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
}

/** Return an icon, which is decoration: the text beside it says what it means. */
export function icon(name) {
  const path = s("path", { d: ICONS[name] });
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, path);
}

/** Return a button with an optional icon before its text. */
export function button(text, { sign = null, kind = "", label = null, click, ...rest } = {}) {
  const content = [sign && icon(sign), text && h("span", {}, text)];
  const attributes = { type: "button", class: `button ${kind}`.trim(), "aria-label": label, title: label, ...rest };
  return h("button", { ...attributes, on: { ...(rest.on ?? {}), ...(click ? { click } : {}) } }, content);
}

/** Return a sign that something is on its way; text beside it says what. */
export const spinner = () => h("span", { class: "spinner", "aria-hidden": "true" });

/** Return text that only screen readers get. */
export const spoken = (text) => h("span", { class: "hidden-text" }, text);

/**
 * Replace what `place` shows and keep the keyboard focus: on the element with the same `data-key`, or, where that is
 * gone, on the one that its `data-after` names.
 */
export function fill(place, ...children) {
  const held = place.contains(document.activeElement) ? document.activeElement.dataset : {};
  place.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  const find = (key) => key && place.querySelector(`[data-key="${CSS.escape(key)}"]`);
  (find(held.key) ?? find(held.after))?.focus({ preventScroll: true });
}

let serial = 0;

/** Return an id that no other element of the page has. */
export const fresh = (stem) => `${stem}-${++serial}`;
