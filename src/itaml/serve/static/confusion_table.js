// Which classes are taken for which, counted on images that were not trained on.

import { h } from "./dom.js";
import { count } from "./words.js";

const MOST = 30; // classes in the table; beyond, only the list of pairs is readable
const PAIRS = 8;
const SOURCES = {
  "leave-one-out": "Each kept photo is named as if the model had not learned it.",
  validation: "Counted on the validation split.",
};

/** Return the table and the pairs that are confused most often. */
export function confusionTable({ classes, counts, source }) {
  if (!counts || !classes.length)
    return h("p", { class: "help" }, "There is nothing to measure yet: add more photos of each class.");
  const pairs = [];
  counts.forEach((row, truth) =>
    row.forEach((number, named) => truth !== named && number && pairs.push([number, truth, named])),
  );
  pairs.sort((a, b) => b[0] - a[0]);
  return [
    h("p", { class: "help" }, SOURCES[source] ?? ""),
    h(
      "div",
      { class: "side-by-side" },
      classes.length <= MOST && table(classes, counts),
      words(classes, counts, pairs),
    ),
  ];
}

function words(classes, counts, pairs) {
  if (!pairs.length) return h("p", {}, "No class is taken for another.");
  const items = pairs
    .slice(0, PAIRS)
    .map(([number, truth, named]) =>
      h(
        "li",
        {},
        h("b", {}, classes[truth]),
        " taken for ",
        h("b", {}, classes[named]),
        `: ${number} of ${counts[truth].reduce((sum, one) => sum + one, 0)}`,
      ),
    );
  const rest = pairs.length - items.length;
  return h("ul", { class: "pairs" }, items, rest > 0 && h("li", { class: "help" }, `and ${count(rest, "other pair")}`));
}

function table(classes, counts) {
  const head = h(
    "tr",
    {},
    h("th", { scope: "col", class: "corner" }, "True class ↓ · named →"),
    classes.map((name) => h("th", { scope: "col", class: "turned", title: name }, h("span", {}, name))),
  );
  const rows = counts.map((row, truth) => {
    const total = row.reduce((sum, one) => sum + one, 0);
    return h(
      "tr",
      {},
      h("th", { scope: "row", title: classes[truth] }, classes[truth]),
      row.map((number, named) =>
        h(
          "td",
          {
            class: [number ? "some" : "none", truth === named ? "right" : "wrong"].join(" "),
            style: { "--share": total ? number / total : 0 },
            title: `${classes[truth]} named ${classes[named]}: ${number} of ${total}`,
          },
          number ? String(number) : "·",
        ),
      ),
    );
  });
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Confusion table" },
    h("table", { class: "matrix" }, h("thead", {}, head), h("tbody", {}, rows)),
  );
}
