"""Reference pages made from the package: commands, settings, presets, and the list of methods."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import typer

from itaml.cli.main import app
from itaml.config import Settings, preset_summary, presets
from itaml.learners import LEARNERS

FIELD = re.compile(r"^    (\w+): .*?(?:  # (.*))?$", re.MULTILINE)
ABOVE = re.compile(r"^    # (.+)\n    (\w+): ", re.MULTILINE)


def cli_page() -> str:
    """Return the page of all commands with their arguments and options."""
    root = typer.main.get_command(app)
    parts = ["# Commands", "What `itaml COMMAND --help` prints, for every command."]
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        parts += _command(f"itaml {name}", command)
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> list[str]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        return [part for key, below in inner.items() for part in _command(f"{name} {key}", below)]
    text = inspect.cleandoc(command.help or "").replace("\b\n", "").partition("\f")[0]
    positional = [param for param in command.params if param.param_type_name == "argument"]
    words = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in positional]
    usage = " ".join([name, *words, "[OPTIONS]"])
    rows = [_row(param) for param in command.params if not getattr(param, "hidden", False)]
    table = "\n".join(["| argument or option | meaning |", "|---|---|", *rows])
    return [f"## {name}", f"```text\n{usage}\n```", text, table]


def _row(param: Any) -> str:
    names = (
        param.name.upper() if param.param_type_name == "argument" else ", ".join([*param.opts, *param.secondary_opts])
    )
    default = getattr(param, "default", None)
    shown = default is not None and default != () and not isinstance(default, bool) and not callable(default)
    meaning = _cell(getattr(param, "help", None) or "") + (f" Default: `{_cell(str(default))}`." if shown else "")
    return f"| `{names}` | {meaning} |"


def settings_page() -> str:
    """Return the page of the settings of every method: name, default and meaning."""
    intro = (
        "Settings are given by `--set NAME=VALUE`, by a preset, or as a dictionary in Python. Settings that all methods"
        " trained by gradient steps share are listed once."
    )
    parts = ["# Settings", intro]
    kinds = {name: LEARNERS.load(name).Settings for name in LEARNERS.names()}
    from itaml.learners.settings import TrainingSettings  # noqa: PLC0415 (imports torch)

    parts += ["## Shared settings", _settings_table(TrainingSettings, TrainingSettings.model_fields)]
    for name, kind in kinds.items():
        shared = TrainingSettings.model_fields if issubclass(kind, TrainingSettings) else {}
        own = [key for key in kind.model_fields if key not in shared]
        parts += [f"## {name}", _settings_table(kind, own) if own else "No settings of its own."]
    return "\n\n".join(parts) + "\n"


def _settings_table(kind: type[Settings], names: Any) -> str:
    meanings = _comments(kind)
    rows = []
    for name in names:
        field = kind.model_fields[name]
        default = (
            "required" if field.is_required() else f"`{_cell(repr(field.get_default(call_default_factory=True)))}`"
        )
        rows.append(f"| `{name}` | {default} | {_cell(meanings.get(name, ''))} |")
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def _comments(kind: type[Settings]) -> dict[str, str]:
    """Return the comment beside or above each setting in the source."""
    found: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if issubclass(cls, Settings) and cls is not Settings:
            source = inspect.getsource(cls)
            found |= {name: comment for name, comment in FIELD.findall(source) if comment}
            found |= {name: comment for comment, name in ABOVE.findall(source)}
    return found


def presets_page() -> str:
    """Return the page of all presets, as their files are."""
    intro = (
        "A preset is a file of settings. Top-level keys hold for every benchmark; a table named after a benchmark, or"
        " after its family, overrides them."
    )
    parts = ["# Presets", intro]
    folder = Path(inspect.getfile(Settings)).parent / "presets"
    for method in LEARNERS.names():
        for preset in presets(method):
            file = folder / method / f"{preset}.toml"
            if file.exists():
                parts += [f"## {method}: {preset}", f"```toml\n{file.read_text(encoding='utf-8').rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def method_index(folder: Path) -> str:
    """Return the page that lists the methods with their presets."""
    rows = []
    for entry in LEARNERS:
        page = "../itaml.md" if entry.name == "itaml" else f"{entry.name}.md"
        link = f"[`{entry.name}`]({page})" if (folder / page).exists() else f"`{entry.name}`"
        names = ", ".join(f"`{name}`" for name in presets(entry.name) if preset_summary(entry.name, name))
        rows.append(f"| {link} | {_cell(entry.summary)} | {names} |")
    intro = "Every method has the same contract and runs on every benchmark: `itaml run BENCHMARK --method NAME`."
    return "\n".join(["# Methods", "", intro, "", "| method | what it is | presets |", "|---|---|---|", *rows]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
