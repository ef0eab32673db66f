"use strict";
// Sort the results by a column; methods that are not ranked stay below.
for (const table of document.querySelectorAll("table.results")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const falling = head.dataset.better === "1" ? "descending" : "ascending";
      const other = falling === "descending" ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === falling ? other : falling;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const key = (row) => column ? parseFloat(row.cells[column].dataset.value) : row.cells[0].textContent;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (column === 0) return sign * x.localeCompare(y);
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
        return sign * (x - y);
      };
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => row.dataset.series !== undefined);
        body.append(...rows.sort(compare));
      }
    });
  });
}
// Highlight a method in table, legend and charts: while the pointer is over it, or until the next click or tap.
for (const area of document.querySelectorAll(".compare")) {
  let pinned = null;
  const show = (series) => {
    area.classList.toggle("focused", series !== null);
    for (const one of area.querySelectorAll("[data-series]")) {
      one.classList.toggle("on", one.dataset.series === series);
      if (one.tagName === "BUTTON") one.setAttribute("aria-pressed", String(one.dataset.series === pinned));
    }
  };
  const of = (event) => event.target.closest("[data-series]")?.dataset.series ?? null;
  area.addEventListener("pointerover", (event) => show(of(event) ?? pinned));
  area.addEventListener("pointerleave", () => show(pinned));
  area.addEventListener("focusin", (event) => show(of(event) ?? pinned));
  area.addEventListener("click", (event) => {
    const series = of(event);
    if (series === null) return;
    pinned = pinned === series ? null : series;
    show(pinned);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(pinned = null);
  });
}
// Say that a table scrolls only where it does.
const hint = () => {
  for (const box of document.querySelectorAll(".scroll")) {
    box.previousElementSibling.hidden = box.scrollWidth <= box.clientWidth;
  }
};
addEventListener("resize", hint);
hint();
// Open the details of a method that a link leads to, and everything before printing.
const reveal = () => {
  const details = document.getElementById(location.hash.slice(1))?.closest("details");
  if (details) details.open = true;
};
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
