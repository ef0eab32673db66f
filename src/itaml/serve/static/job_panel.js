// A learn on its way: phases, progress, time left, cancel; and what came of it.

import { button, h, icon } from "./dom.js";
import { cancel, closeResult, learning } from "./jobs.js";
import { learnResult } from "./learn_result.js";
import { date, duration, percent, sentence } from "./words.js";

const PHASES = [
  ["sending", "Sending"],
  ["staging", "Receiving"],
  ["reading", "Reading"],
  ["features", "Features"],
  ["training", "Training"],
  ["saving", "Saving"],
  ["verifying", "Verifying"],
];

/** Return an element that shows the learn that runs; `show()` brings it up to date without building it again. */
export function jobPanel() {
  const title = h("h2", { id: "job-title" });
  const line = h("p", { class: "job-line" });
  const bar = h("progress", { max: "1", "aria-labelledby": "job-title" });
  const phases = PHASES.map(([, text]) => h("li", {}, text));
  const spokenPhase = h("p", { class: "hidden-text", "aria-live": "polite" });
  const stop = button("Cancel", { sign: "close", kind: "plain", click: cancel, "data-key": "cancel" });
  const element = h(
    "section",
    { class: "panel job", "aria-labelledby": "job-title" },
    h("div", { class: "panel-head" }, title, stop),
    bar,
    line,
    h("ol", { class: "phases" }, phases),
    spokenPhase,
  );
  return { element, show: () => show({ title, line, bar, phases, spokenPhase }) };
}

function show({ title, line, bar, phases, spokenPhase }) {
  const { job, sending, part, parts } = learning;
  const phase = sending !== null ? "sending" : job?.state === "queued" ? "staging" : (job?.phase ?? "staging");
  const place = PHASES.findIndex(([name]) => name === phase);
  phases.forEach((item, index) => {
    item.className = index < place ? "past" : index === place ? "now" : "";
    if (index === place) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
  title.textContent =
    (job?.state === "queued" ? "Waiting to learn" : "Learning") + (parts > 1 ? ` · part ${part} of ${parts}` : "");
  if (sending !== null) bar.value = sending;
  else if (typeof job?.progress === "number") bar.value = job.progress;
  else bar.removeAttribute("value");
  line.textContent = details(job, sending).join(" · ");
  const words = PHASES[place]?.[1] ?? "Finishing";
  if (spokenPhase.textContent !== words) spokenPhase.textContent = words;
}

function details(job, sending) {
  if (sending !== null) return [`Sending the photos: ${percent(sending)}`];
  const said = [];
  if (typeof job?.progress === "number") said.push(percent(job.progress));
  if (job?.seconds_left !== null && job?.seconds_left !== undefined)
    said.push(`about ${duration(job.seconds_left)} left`);
  if (job?.phase === "training" && job.epochs) said.push(`epoch ${job.epoch} of ${job.epochs}`);
  if (job?.images_total) said.push(`${job.images_done} of ${job.images_total} images`);
  if (job?.images_per_second) said.push(`${Math.round(job.images_per_second)} images per second`);
  if (job?.resumed) said.push("resumed after a restart of the server");
  return said.length ? said : ["Starting…"];
}

/** Return what came of a learn that has ended. */
export function endedPanel(job) {
  const close = button("", { sign: "close", kind: "quiet round", label: "Close this result", click: closeResult });
  const failed = job.state !== "done";
  const titles = { done: "Learned", failed: "The learn failed", cancelled: "The learn was cancelled" };
  const when = job.finished ? h("p", { class: "help" }, date(job.finished)) : null;
  const head = h(
    "div",
    { class: "panel-head" },
    h("h2", { id: "ended-title" }, icon(job.state === "done" ? "check" : "alert"), titles[job.state]),
    close,
  );
  const body = failed
    ? h(
        "p",
        {},
        job.state === "failed"
          ? sentence(job.error ?? "the server gave no reason")
          : "The model is as it was. The photos are still below.",
      )
    : learnResult(job.result ?? {});
  return h("section", { class: `panel ended ${job.state}`, "aria-labelledby": "ended-title" }, head, when, body);
}
