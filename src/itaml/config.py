"""Settings: frozen, checked by name and type, read from TOML presets and `key=value` overrides.

A preset is a file `presets/<method>/<preset>.toml` of the package that has the method. Its top-level keys hold for
every benchmark; a table named after a benchmark, or after its families (what stands before a dash: `[cifar100]` and
`[cifar100-10]` for `cifar100-10-16px`), overrides them, the longer name after the shorter one. `inherits = "best"`
begins with the values that another preset of the method has for the benchmark. A preset whose name ends in `.toml` is a
file of the user, such as `itaml tune` writes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from itaml.errors import SettingsError, UnknownNameError, UnsafeFileError
from itaml.migration import migrate_settings, renamed_hint
from itaml.registry import unknown
from itaml.safe_files import open_regular

DEFAULT_PRESET = "best"
PRESET_FILE = ".toml"  # ending of a preset that is a file of the user
INHERITS = "inherits"  # key of a preset's file that names another one
PRESET_LIMIT = 1_000_000  # bytes of such a file
LONGEST = 200  # letters of a value in an error message


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Seeds(Settings):
    """A seed for each thing that is drawn at random; all follow the root seed unless set by themselves."""

    init: int  # initial weights
    batches: int  # order of training samples
    augment: int  # augmentation and dropout
    memory: int  # which exemplars are kept
    adapt: int  # mini-batches of the adaptation at inference
    continua: int  # which test samples form a continuum
    order: int | None = None  # order of classes; None keeps the data set's own

    @classmethod
    def of(cls, root: int, **overrides: int | None) -> Self:
        """Return seeds that all equal `root`, apart from the given ones; classes keep the data set's order."""
        names = [name for name in cls.model_fields if name != "order"]
        return cls(**(dict.fromkeys(names, root) | overrides))


class Compute(Settings):
    """Where and how numbers are computed."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: bool = False  # compile the network with torch.compile for training


AnySettings = TypeVar("AnySettings", bound=Settings)


def build(kind: type[AnySettings], values: Mapping[str, Any], *, what: str = "setting") -> AnySettings:
    """Check values and make settings of them.

    Raises:
        UnknownNameError: a key is not a setting; the message offers the nearest name.
        SettingsError: a value is of the wrong type or impossible; the message is one line.
    """
    for key in values:
        if key not in kind.model_fields:
            raise UnknownNameError(renamed_hint(what, key) or unknown(what, key, kind.model_fields))
        if isinstance(values[key], int) and not -(2**63) <= values[key] < 2**63:
            raise SettingsError(f"{what} {key}: must be a number of at most 64 bits")
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        message = str(first["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
        if not first["loc"]:  # a rule about several settings
            raise SettingsError(message) from error
        name = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{what} {name}: {message} (got {_shown(first['input'])})") from error


def _shown(value: Any) -> str:
    """Return a value as it can stand in a sentence."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or nested too deeply
        return f"this {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Turn `key=value` arguments into values: numbers, true and false, lists; anything else is text.

    Raises:
        SettingsError: an argument has no `=`.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--set takes key=value, not {_shown(pair)}")
        values[key.strip()] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or nested too deeply
        pass
    if "," in text:
        return [_value(part.strip()) for part in text.split(",") if part.strip()]
    return text


def presets(method: str) -> tuple[str, ...]:
    """Return the names of a method's presets, the default first."""
    folder = _folder(method)
    found = [item.name for item in folder.iterdir()] if folder.is_dir() else []
    names = sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PRESET))


def load_preset(method: str, preset: str, *, benchmark: str) -> dict[str, Any]:
    """Return a preset's values for a benchmark.

    Raises:
        UnknownNameError: the method has no such preset.
        SettingsError: its file is not TOML, a preset file of the user is missing, or it inherits from itself.
    """
    values: dict[str, Any] = {}
    chain = [preset]
    while True:
        own = _own_values(method, chain[-1], benchmark=benchmark)
        parent = own.pop(INHERITS, None)
        values = own | values
        if parent is None:
            return values
        if not isinstance(parent, str) or parent.endswith(PRESET_FILE):
            raise SettingsError(f"preset {chain[-1]}: {INHERITS} names a preset of the method (got {_shown(parent)})")
        if parent in chain:
            raise SettingsError(f"preset {preset} inherits from itself: {' -> '.join([*chain, parent])}")
        chain.append(parent)


def _own_values(method: str, preset: str, *, benchmark: str) -> dict[str, Any]:
    """Return what the preset's own file says."""
    if preset.endswith(PRESET_FILE):
        return parse_preset(_read_file(preset), source=f"preset {preset}", benchmark=benchmark)
    names = presets(method)
    if preset not in names:
        if not names and preset == DEFAULT_PRESET:
            return {}  # a plug-in method without preset files runs with its settings' own defaults
        raise UnknownNameError(unknown(f"preset for {method}", preset, names))
    data = (_folder(method) / f"{preset}.toml").read_bytes()
    return parse_preset(data, source=f"preset {preset} of {method}", benchmark=benchmark)


def parse_preset(data: bytes, *, source: str, benchmark: str) -> dict[str, Any]:
    """Return the values for a benchmark from the bytes of a preset's file; `source` names it in messages.

    Raises:
        SettingsError: it is not TOML.
    """
    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8, numbers of thousands of digits
        why = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise SettingsError(f"{source} is not TOML: {why[:LONGEST]}") from None
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    for section in sections(table, benchmark):
        values |= {key: value for key, value in section.items() if not isinstance(value, dict)}
    return migrate_settings(values)


def sections(table: Mapping[str, Any], benchmark: str) -> list[Mapping[str, Any]]:
    """Return the tables of a preset's or recipe's file that hold for a benchmark, the most general first."""
    parts = benchmark.partition(":")[0].split("-")
    names = ["-".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return [table[name] for name in dict.fromkeys((*names, benchmark)) if isinstance(table.get(name), dict)]


def preset_summary(method: str, preset: str) -> str:
    """Return the first comment line of a preset's file."""
    data = (_folder(method) / f"{preset}.toml").read_bytes()
    first = data.partition(b"\n")[0].decode(errors="replace")
    return first.lstrip("# ")


def _read_file(path: str) -> bytes:
    try:
        with open_regular(path, limit=PRESET_LIMIT) as file:
            return file.read()
    except (OSError, UnsafeFileError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(f"preset {path}: {reason[0].lower() + reason[1:]}") from error


def _folder(method: str) -> Traversable:
    """Return the folder of a method's presets: in this package, or in that of the method's entry point."""
    ours = files("itaml").joinpath("presets", method)
    points = [] if ours.is_dir() else [*entry_points(group="itaml.learners", name=method)]
    return files(points[0].module.partition(".")[0]).joinpath("presets", method) if points else ours
