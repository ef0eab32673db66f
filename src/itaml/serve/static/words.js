// Numbers, dates and counts as people read them.

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const LIST = new Intl.ListFormat("en", { type: "conjunction" });

/** Return "1 photo" or "3 photos". */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** Return a probability or an accuracy in per cent; what is not measured is a dash. */
export function percent(share, digits = 0) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const rounded = (100 * share).toFixed(digits);
  if (digits === 0 && share < 1 && rounded === "100") return ">99%";
  if (digits === 0 && share > 0 && rounded === "0") return "<1%";
  return `${rounded}%`;
}

/** Return a difference of two shares in percentage points, with its sign. */
export function points(difference) {
  const rounded = (100 * difference).toFixed(1);
  if (Number(rounded) === 0) return "±0";
  return `${difference > 0 ? "+" : "−"}${rounded.replace("-", "")}`;
}

/** Return how long `seconds` are. */
export function duration(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return count(Math.round(seconds), "second");
  if (seconds < 5400) return count(Math.round(seconds / 60), "minute");
  return `${(seconds / 3600).toFixed(1)} hours`;
}

/** Return a date of the server in the reader's time zone. */
export function date(iso) {
  const moment = new Date(iso);
  return Number.isNaN(moment.getTime()) ? String(iso ?? "") : DATE.format(moment);
}

/** Return a file size. */
export function bytes(size) {
  if (size < 1e6) return `${Math.max(1, Math.round(size / 1e3))} KB`;
  return `${(size / 1e6).toFixed(size < 1e7 ? 1 : 0)} MB`;
}

/** Return names as a list in a sentence; of many, the first ones and how many more there are. */
export function list(names, most = 4) {
  if (names.length <= most) return LIST.format(names);
  return LIST.format([...names.slice(0, most - 1), `${names.length - most + 1} more`]);
}

/** Return what two class names have in common if the server refuses them side by side: case and Unicode form. */
export const alike = (name) => name.normalize("NFKC").toLowerCase().normalize("NFKC").trim();

/** Return words of the server as a sentence. */
export function sentence(text) {
  const words = String(text ?? "").trim();
  if (!words) return "";
  return words[0].toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
}
