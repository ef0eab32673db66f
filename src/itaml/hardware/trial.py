"""Train a small network in this process and print how fast: `python -m itaml.hardware.trial fp32 bf16`.

`itaml.hardware.probe` starts it as a child process, because bfloat16 may kill the process: some kernels and sandboxes
report AMX and do not permit its instructions. The network has every kind of layer that the package's networks train:
convolutions of 3x3 and 1x1, a depthwise one, and linear layers. The last line printed is JSON: the best time of a
forward and backward pass in seconds for each number format, or the error that stopped it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMATS = ("fp32", "bf16")
REPETITIONS = 11
ENOUGH = 3  # repetitions, if one format then takes more than CLEAR times as long as another
CLEAR = 2.0
BATCH, SIDE, WIDTH, CLASSES = 32, 32, 32, 16


def main(formats: Sequence[str]) -> int:
    """Print the seconds of a training step in each format; return the exit code."""
    _crash_quietly()
    try:
        prediction: dict[str, Any] = {"seconds": measure(formats)}
    except Exception as error:  # whatever torch raises here it would raise in training
        prediction = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
    sys.stdout.write(json.dumps(prediction) + "\n")
    return int("error" in prediction)


def measure(formats: Sequence[str]) -> dict[str, float]:
    """Return the best time of a step in each format; the formats take turns, so that other work disturbs all alike."""
    import torch  # noqa: PLC0415 (after the limits of `_crash_quietly`)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = _network().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (BATCH,))
    times: dict[str, list[float]] = {name: [] for name in formats}
    for repetition in range(REPETITIONS + 1):  # the first step of a format also builds the kernels
        for name in formats:
            start = time.perf_counter()
            _step(network, images, labels, bf16=name == "bf16")
            times[name].append(time.perf_counter() - start)
        if repetition >= ENOUGH:
            best = _best(times).values()
            if max(best) > CLEAR * min(best):
                break
    return _best(times)


def _best(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: min(taken[1:]) for name, taken in times.items()}


def _network() -> nn.Module:
    from torch import nn  # noqa: PLC0415

    return nn.Sequential(
        *(nn.Conv2d(3, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()),
        *(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()),
        *(nn.Conv2d(WIDTH, 2 * WIDTH, 1, stride=2, bias=False), nn.BatchNorm2d(2 * WIDTH), nn.ReLU()),
        *(nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH, bias=False), nn.ReLU()),
        *(nn.Conv2d(2 * WIDTH, 4 * WIDTH, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4 * WIDTH), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * WIDTH, 4 * WIDTH), nn.ReLU()),
        nn.Linear(4 * WIDTH, CLASSES),
    )


def _step(network: nn.Module, images: Tensor, labels: Tensor, *, bf16: bool) -> None:
    import torch  # noqa: PLC0415

    network.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else nullcontext():
        logits = network(images)
    torch.nn.functional.cross_entropy(logits.float(), labels).backward()


def _crash_quietly() -> None:
    """Leave neither a core dump nor a window behind."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415

        msvcrt.SetErrorMode(msvcrt.SEM_FAILCRITICALERRORS | msvcrt.SEM_NOGPFAULTERRORBOX)
        return
    try:
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass  # no such limit here


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or FORMATS))
