"""Forward passes per second of EfficientNet-Lite0 at 224 pixels, in several forms, measured in turn.

    python benchmarks/photos_speed.py [--threads 1] [--rounds 5] [--compile]

Other work on the machine changes the absolute numbers; the forms take turns, and the ratios to eager mode are those of
the same round. ONNX Runtime takes part where onnxruntime and onnxscript are installed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from photos_common import write
from torch import Tensor

from itaml.models.backbones.fold import fold_batch_norm
from itaml.models.backbones.wheels import open_wheel_backbone

BATCH = 16
Form = Callable[[Tensor], object]


def onnx_form(threads: int) -> Form:
    import onnxruntime

    network = open_wheel_backbone("efficientnet-lite0").network
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lite0.onnx"
        torch.onnx.export(network, (torch.zeros(BATCH, 3, 224, 224),), path, input_names=["images"], dynamo=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path.as_posix(), options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(None, {"images": images.numpy()})


def forms(threads: int, *, compiled: bool) -> dict[str, Form]:
    plain = open_wheel_backbone("efficientnet-lite0", fold=False).network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    ready = open_wheel_backbone("efficientnet-lite0").network
    folded = fold_batch_norm(plain)

    def last(network: Form) -> Form:
        return lambda images: network(images.contiguous(memory_format=torch.channels_last))

    found: dict[str, Form] = {
        "eager": plain,
        "eager, channels_last": last(plain),
        "folded": folded,
        "folded, channels_last": last(ready),
    }
    if compiled:
        found["folded, channels_last, torch.compile"] = last(torch.compile(ready))
    if find_spec("onnxruntime") is not None and find_spec("onnxscript") is not None:
        found["ONNX Runtime"] = onnx_form(threads)
    return found


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which may take minutes to start")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    images = torch.randn(BATCH, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    measured: dict[str, list[float]] = {}
    found = forms(options.threads, compiled=options.compile)
    for form in found.values():
        form(images)  # the first call compiles
    for _ in range(options.rounds):
        for name, form in found.items():
            start = time.perf_counter()
            form(images)
            measured.setdefault(name, []).append(BATCH / (time.perf_counter() - start))
    ratios = {
        name: statistics.median(mine / eager for mine, eager in zip(rates, measured["eager"], strict=True))
        for name, rates in measured.items()
    }
    print({name: (round(max(rates), 1), round(ratios[name], 2)) for name, rates in measured.items()})
    results = {name: {"images per second": rates, "ratio to eager": ratios[name]} for name, rates in measured.items()}
    write(f"speed-{options.threads}-threads", {"batch": BATCH, "size": 224, "threads": options.threads}, results)


if __name__ == "__main__":
    main()
