// The accuracy after each change of the model, drawn as SVG, with the same numbers as a table.

import { h, s } from "./dom.js";
import { count, date, list, percent } from "./words.js";

const HEIGHT = 220;
const PAD = { left: 48, right: 20, top: 16, bottom: 46 };

/** Return the chart of a history. */
export function accuracyChart(history) {
  const entries = history.filter((entry) => typeof entry.accuracy === "number");
  if (!entries.length)
    return h(
      "p",
      { class: "help" },
      "Nothing is measured yet. Classes with a few more photos are measured on some of them.",
    );
  const table = h("details", {}, h("summary", {}, "The same as a table"), numbers(history));
  const place = h("div", { class: "chart" });
  let drawn = 0;
  new ResizeObserver(
    ([
      {
        contentRect: { width },
      },
    ]) => {
      if (!width || width === drawn) return;
      drawn = width;
      place.replaceChildren(chart(entries, width)); // drawn at its real width, so that text keeps its size on a phone
    },
  ).observe(place);
  return [place, table];
}

/** Return values for the ticks of the y axis: steps of a size that people read, around the data. */
export function ticks(lowest) {
  const step = lowest >= 0.9 ? 0.02 : lowest >= 0.75 ? 0.05 : lowest >= 0.5 ? 0.1 : 0.2;
  const start = Math.min(0.9, Math.max(0, Math.floor(lowest / step - 0.25) * step));
  return Array.from({ length: Math.round((1 - start) / step) + 1 }, (_, place) => start + place * step);
}

function chart(entries, width) {
  const marks = ticks(Math.min(...entries.map((entry) => entry.accuracy)));
  const floor = marks[0];
  const across = (place) =>
    PAD.left + (entries.length === 1 ? 0.5 : place / (entries.length - 1)) * (width - PAD.left - PAD.right);
  const down = (share) => PAD.top + ((1 - share) / (1 - floor)) * (HEIGHT - PAD.top - PAD.bottom);
  const grid = marks.map((mark) =>
    s(
      "g",
      {},
      s("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: down(mark), y2: down(mark) }),
      s("text", { x: PAD.left - 8, y: down(mark) + 4, "text-anchor": "end" }, percent(mark)),
    ),
  );
  const every = Math.ceil(entries.length / Math.max(2, Math.floor(width / 60)));
  const versions = entries.map((entry, place) =>
    place % every
      ? null
      : s("text", { x: across(place), y: HEIGHT - 26, "text-anchor": "middle" }, String(entry.version)),
  );
  const axis = s(
    "text",
    { x: (PAD.left + width - PAD.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" },
    "version of the model",
  );
  const path = entries
    .map((entry, place) => `${place ? "L" : "M"}${across(place).toFixed(1)} ${down(entry.accuracy).toFixed(1)}`)
    .join("");
  const dots = entries.map((entry, place) =>
    s(
      "circle",
      { cx: across(place), cy: down(entry.accuracy), r: 4.5 },
      s("title", {}, `Version ${entry.version}, ${date(entry.date)}: ${percent(entry.accuracy, 1)}`),
    ),
  );
  const last = entries.at(-1);
  const word = s(
    "text",
    {
      class: "value",
      x: Math.min(across(entries.length - 1), width - 30),
      y: down(last.accuracy) + (down(last.accuracy) < 40 ? 20 : -10),
      "text-anchor": "middle",
    },
    percent(last.accuracy, 1),
  );
  const range = `from ${percent(entries[0].accuracy, 1)} to ${percent(last.accuracy, 1)}`;
  const said = `Accuracy over ${count(entries.length, "version")}: ${range}.`;
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": said },
    grid,
    versions,
    axis,
    s("path", { class: "line", d: path }),
    dots,
    word,
  );
}

function numbers(history) {
  const rows = [...history]
    .reverse()
    .map((entry) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, String(entry.version)),
        h("td", { class: "text" }, date(entry.date)),
        h("td", { class: "text" }, `${entry.action}: ${list(entry.classes ?? [], 3)}`),
        h("td", {}, percent(entry.accuracy, 1)),
      ),
    );
  const head = [["Version"], ["Date", "text"], ["What changed", "text"], ["Accuracy"]].map(([text, kind]) =>
    h("th", { scope: "col", class: kind ?? null }, text),
  );
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accuracy over versions as a table" },
    h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
  );
}
