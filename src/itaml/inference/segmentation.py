"""Cut an ordered stream that mixes tasks into runs of one task; each run is then a continuum of its own.

The paper takes it for granted that the samples of a continuum share a task. Here that is inferred, from the
log-evidence for each task that every sample gives by itself (n, tasks).

| symbol | meaning                                                                                         |
|--------|-------------------------------------------------------------------------------------------------|
| T, n   | tasks, samples in the stream                                                                    |
| L      | mean length of a run: after each sample, the task changes with probability h = 1/L              |
| e      | share of samples that tell nothing about their task, or tell it wrongly                         |

*Error model.* The task is a Markov chain: it stays with probability 1 - h, and otherwise changes to one of the T - 1
others, all alike. A sample's evidence is right with probability 1 - e and says nothing otherwise, so that task i has
the likelihood (1 - e) p_i + e/T (`tempered`): one overconfident sample cannot outweigh a run, as in the bound of
Algorithm 4, where a sample votes for a wrong task now and then. The most probable sequence of tasks is then found
exactly by dynamic programming (Viterbi, 1967), where a change costs log((1 - h)(T - 1)/h) = log((L - 1)(T - 1)), in
O(n T) time. If L is not known it is estimated from the stream by expectation-maximisation of h (Baum et al., 1970).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from itaml.errors import DataError, SettingsError

LONGEST_RUN = 10_000.0
ROUNDS = 30  # of expectation-maximisation
ENOUGH = 2_000  # samples that the mean run is estimated from


def temper_evidence(evidence: Tensor, *, error: float) -> Tensor:
    """Return log((1 - e) p + e/T) of log-evidence (n, T), so that a sample weighs no more than its error rate allows.

    Raises:
        SettingsError: the error rate is not between 0 and 1.
    """
    if not 0 <= error <= 1:
        raise SettingsError(f"error must be between 0 and 1 (got {error})")
    probabilities = evidence.double().softmax(1)
    return ((1 - error) * probabilities + error / evidence.shape[1]).clamp_min(1e-300).log()


def switch_cost(mean_run: float, tasks: int) -> float:
    """Return what a change of task costs, for runs of `mean_run` samples on average: log((L - 1)(T - 1)), at least 0.

    At 0, which is reached when a run is no longer than chance would make it, every sample stands alone.

    Raises:
        SettingsError: a run of less than one sample, or no tasks.
    """
    if not mean_run >= 1:
        raise SettingsError(f"mean_run must be >= 1 (got {mean_run})")
    if tasks < 1:
        raise SettingsError(f"tasks must be >= 1 (got {tasks})")
    odds = (min(mean_run, LONGEST_RUN) - 1) * (tasks - 1)
    return math.log(odds) if odds > 1 else 0.0


def segment(evidence: Tensor, switch_cost: float) -> Tensor:
    """Return the task of each sample (n,) on the best path: most evidence less `switch_cost` a change.

    Args:
        evidence: log-evidence of each sample for each task (n, T), in the order of the stream.
        switch_cost: what a change of task costs, in the unit of the evidence.

    Raises:
        DataError: the evidence is not a table of numbers.
        SettingsError: the cost is negative.
    """
    online = OnlineSegmenter(
        evidence.shape[1] if evidence.dim() == 2 else 0, switch_cost=switch_cost, lag=len(evidence)
    )
    for row in evidence:
        online.push(row)
    return torch.tensor(online.flush(), dtype=torch.int64)


class OnlineSegmenter:
    """The same, sample by sample: the task of a sample is known when `lag` more have been seen.

    A fixed lag of n or more samples gives the offline result; a shorter one bounds the delay and the memory, and
    decides on the path that is best at that moment.
    """

    def __init__(self, tasks: int, *, switch_cost: float, lag: int) -> None:
        if tasks < 1:
            raise DataError("evidence is a table (samples, tasks) with at least one task")
        if not switch_cost >= 0:
            raise SettingsError(f"switch_cost must be >= 0 (got {switch_cost})")
        if lag < 0:
            raise SettingsError(f"lag must be >= 0 (got {lag})")
        self.cost, self.lag = switch_cost, lag
        self._best = torch.zeros(tasks, dtype=torch.float64)  # value of the best path that ends in each task
        self._origin: list[Tensor] = []  # for the samples without a task yet: the task before, on that path (T,)

    def push(self, evidence: Tensor) -> int | None:
        """Take the next sample's evidence (T,); return the task of the sample `lag` before it, if there is one.

        Raises:
            DataError: the evidence has another number of tasks, or is not a number.
        """
        if evidence.shape != self._best.shape or not bool(torch.isfinite(evidence).all()):
            raise DataError(f"evidence must be {len(self._best)} finite numbers, not {evidence.tolist()}")
        stay = torch.arange(len(self._best))
        leader = self._best.argmax()
        switches = self._best[leader] - self.cost > self._best  # a tie stays
        self._origin.append(torch.where(switches, leader, stay))
        self._best = torch.where(switches, self._best[leader] - self.cost, self._best) + evidence.double()
        self._best = self._best - self._best.max()  # only differences matter; keeps long streams exact
        return self._emit_first() if len(self._origin) > self.lag else None

    def flush(self) -> list[int]:
        """Return the tasks of all samples that are still waiting, and forget the stream."""
        path = self._trace()
        self._origin, self._best = [], torch.zeros_like(self._best)
        return path

    def _emit_first(self) -> int:
        task = self._trace()[0]
        del self._origin[0]
        return task

    def _trace(self) -> list[int]:
        """Return the best path over the samples that wait."""
        path, task = [], int(self._best.argmax())
        for origin in reversed(self._origin):
            path.append(task)
            task = int(origin[task])
        return path[::-1]


def runs(tasks: Tensor) -> Tensor:
    """Number the runs of equal tasks (n,): 0 for the first, one more at every change."""
    if not len(tasks):
        return torch.zeros(0, dtype=torch.int64)
    changes = torch.cat([torch.zeros(1, dtype=torch.int64), (tasks[1:] != tasks[:-1]).long()])
    return changes.cumsum(0)


def estimate_mean_run(evidence: Tensor) -> float:
    """Return the maximum-likelihood estimate of L, from the evidence (n, T) of at most the first `ENOUGH` samples."""
    count, tasks = evidence.shape
    if tasks < 2 or count < 2:
        return LONGEST_RUN
    likelihood = (evidence[:ENOUGH].double() - evidence[:ENOUGH].double().amax(1, keepdim=True)).exp().numpy()
    rate = 0.1
    for _ in range(ROUNDS):
        expected = _expected_changes(likelihood, rate)
        following = min(max(expected / (len(likelihood) - 1), 1 / LONGEST_RUN), 1 - 1 / tasks)
        if abs(following - rate) < 1e-3 * rate:
            break
        rate = following
    return 1 / rate


def _expected_changes(likelihood: npt.NDArray[np.float64], rate: float) -> float:
    """Return the expected number of changes of task (forward and backward recursion of the Markov chain)."""
    count, tasks = likelihood.shape
    other = rate / (tasks - 1)
    backward = np.ones((count, tasks))
    for at in range(count - 1, 0, -1):
        ahead = likelihood[at] * backward[at]
        backward[at - 1] = (1 - rate - other) * ahead + other * ahead.sum()
        backward[at - 1] /= backward[at - 1].sum()
    forward, changes = likelihood[0] / likelihood[0].sum(), 0.0
    for at in range(1, count):
        ahead = likelihood[at] * backward[at]
        stays = float((forward * (1 - rate) * ahead).sum())
        moves = other * float(forward.sum() * ahead.sum() - (forward * ahead).sum())
        changes += moves / (stays + moves)
        forward = ((1 - rate - other) * forward + other * forward.sum()) * likelihood[at]
        forward /= forward.sum()
    return changes
