// Predictions as CSV. Text that a spreadsheet would run as a formula begins with a quote, as in `itaml predict`.

const STARTS = /^ *[=+\-@\t\r\n＝＋－＠]/;

/** Return a cell as it is written to CSV. */
export function cell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && STARTS.test(text) && !(text.trim() && Number.isFinite(Number(text))))
    text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return a table as CSV. */
export const csv = (rows) => rows.map((row) => row.map(cell).join(",") + "\r\n").join("");

const HEAD = [
  "file",
  "class",
  "probability",
  "known",
  "task",
  "group",
  "corrected",
  "class2",
  "probability2",
  "class3",
  "probability3",
  "error",
];

/** Return the rows of photos: `shown(item)` is the prediction, `corrected(item)` the class that the reader gave. */
export function rows(items, shown, corrected) {
  return [
    HEAD,
    ...items.map((item) => {
      const found = shown(item) ?? {};
      const [second, third] = (found.top ?? []).filter((one) => one.class !== found.class);
      const share = (one) => (one ? one.probability.toFixed(6) : "");
      const probability = found.class && !found.error ? (found.probability ?? 0).toFixed(6) : "";
      return [
        item.name,
        found.class,
        probability,
        found.known ? "yes" : "no",
        found.task,
        found.group,
        corrected(item),
        second?.class,
        share(second),
        third?.class,
        share(third),
        item.failed ?? found.error,
      ];
    }),
  ];
}

/** Save text as a file of the reader. */
export function download(name, text) {
  const address = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
