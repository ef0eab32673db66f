// Learns that run on the server: start them part by part, follow them, find them again after a reload.

import { ask, follow, upload } from "./api.js";
import { lessons } from "./batches.js";
import { isUseless, learnForm } from "./checking.js";
import { collected, remove } from "./collection.js";
import { keepSetting, setting } from "./keep.js";
import { complain, say } from "./say.js";
import { learnLimits, refresh, shared, tell } from "./shared.js";
import { list, sentence } from "./words.js";

const ENDED = ["done", "failed", "cancelled"];

// `job` as the server describes it; `sending` the share of an upload, or null; `part` of `parts` of a large collection
export const learning = { job: null, sending: null, part: 1, parts: 1, stop: null, closed: null };

/** Return whether a learn is on its way. */
export const isLearning = () =>
  learning.sending !== null || (learning.job !== null && !ENDED.includes(learning.job.state));

const change = (changes) => {
  Object.assign(learning, changes);
  tell("job");
};

/** Teach what is collected. */
export async function teach() {
  const parts = lessons(
    collected().filter((photo) => !isUseless(photo)),
    learnLimits(),
  );
  for (const [place, part] of parts.entries()) {
    change({ part: place + 1, parts: parts.length, job: null, sending: 0, stop: new AbortController() });
    try {
      const { job } = await upload("v1/learn", learnForm(part), {
        progress: (share) => change({ sending: share }),
        signal: learning.stop.signal,
      });
      await keepSetting("lesson", { job: job.id, photos: part.map((photo) => photo.id) });
      change({ job, sending: null });
    } catch (error) {
      change({ sending: null });
      if (error.name === "AbortError") say("The upload was cancelled. The photos are still here.");
      else complain(error, "The learn could not be started");
      return;
    }
    if (!(await watch(learning.job))) return;
  }
}

/** Follow a job to its end, over lost connections too; returns whether it is done. */
async function watch(job) {
  const show = (now) => ENDED.includes(now.state) || change({ job: now }); // the end is shown by `settle`
  let last = job;
  while (!ENDED.includes(last.state)) {
    try {
      last = (await follow(job.id, show)) ?? last;
      if (!ENDED.includes(last.state)) last = await ask(`v1/jobs/${encodeURIComponent(job.id)}`);
    } catch (error) {
      if (error.status === 404)
        last = { ...last, state: "failed", error: "The server does not know this learn any more." };
      else if (error.status === 401) return false;
      else await new Promise((resolve) => setTimeout(resolve, 1500));
    }
    show(last);
  }
  await settle(last);
  return last.state === "done";
}

/** Bring the page up to date with a learn that has ended, and say how. */
async function settle(job) {
  const lesson = await setting("lesson", null);
  if (job.state === "done" && lesson?.job === job.id) forgetTaught(lesson.photos, job);
  if (lesson?.job === job.id) await keepSetting("lesson", null);
  await refresh().catch(() => {});
  change({ job }); // after the model, so that both are of one version
  const taught = [...(job.result?.new_classes ?? []), ...(job.result?.refreshed_classes ?? [])];
  if (job.state === "done") say(`The model has learned ${list(taught) || "nothing new"}.`);
  if (job.state === "failed")
    say(`The learn failed: ${sentence(job.error ?? "the server gave no reason")}`, { kind: "error" });
  if (job.state === "cancelled") say("The learn was cancelled. The model is as it was, and the photos are still here.");
}

function forgetTaught(ids, job) {
  const useless = collected().filter(
    (photo) => isUseless(photo) && (job.result?.images ?? {})[photo.label] !== undefined,
  );
  remove([...ids, ...useless.map((photo) => photo.id)]);
}

/** Find a learn that runs, or the last one that ended, after the page was opened. */
export async function findJob() {
  learning.closed = await setting("closed", null);
  const { jobs } = await ask("v1/jobs");
  const job = jobs.find((one) => !ENDED.includes(one.state)) ?? jobs[0] ?? null;
  const lesson = await setting("lesson", null);
  const mine = jobs.find((one) => one.id === lesson?.job);
  if (mine && ENDED.includes(mine.state)) await settle(mine);
  if (!job) return;
  change({ job });
  if (!ENDED.includes(job.state)) await watch(job);
}

/** Stop the upload or the learn. */
export async function cancel() {
  if (learning.sending !== null) {
    learning.stop.abort();
    return;
  }
  try {
    change({ job: await ask(`v1/jobs/${encodeURIComponent(learning.job.id)}/cancel`, { method: "POST" }) });
  } catch (error) {
    complain(error, "The learn could not be cancelled");
  }
}

/** Put the result of the last learn away. */
export function closeResult() {
  learning.closed = learning.job?.id ?? null;
  keepSetting("closed", learning.closed);
  tell("job");
}

/** Return the ended job whose result is to be shown, or null. */
export const lastResult = () =>
  learning.job && ENDED.includes(learning.job.state) && learning.job.id !== learning.closed && shared.model
    ? learning.job
    : null;
