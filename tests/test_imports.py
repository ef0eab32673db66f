"""Imports point one way, cost little, and change nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import itaml

ROOT = Path(itaml.__file__).parent
LAYERS = (
    {
        "_version",
        "errors",
        "migration",
        "seeding",
        "params",
        "optimizers",
        "registry",
        "config",
        "events",
        "safe_files",
        "spreadsheet",
        "storage",
        "text",
        "distributed",
        "data_parallel",
        "local_links",
        "shares",
        "hardware",
    },
    {"data", "models", "memory"},
    {"losses", "meta", "inference"},
    {"learners"},
    {"metrics"},
    {"experiment"},
    {"avalanche", "doctor", "exchange", "modelstore", "report", "serve", "cli", "testing", "sklearn", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
COMMANDS = [
    "learn",
    "predict",
    "info",
    "verify",
    "rollback",
    "forget",
    "rename",
    "merge",
    "relabel",
    "rebase",
    "serve",
    "export",
    "push",
    "pull",
    "run",
    "compare",
    "ablate",
    "tune",
    "report",
    "watch",
    "list",
    "bound",
    "doctor",
]
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(tree: ast.AST, *, at_run_time_only: bool = False) -> Iterator[str]:
    """Yield the dotted names of our modules that a module imports, inside functions too unless told otherwise."""
    for node in ast.iter_child_nodes(tree):
        if at_run_time_only and (is_type_checking(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "itaml")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module and node.module.split(".")[0] == "itaml":
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield whole if whole in NAMES else node.module
        else:
            yield from imported(node, at_run_time_only=at_run_time_only)


NAMES = {dotted(path) for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_point_one_way(path: Path) -> None:
    name = dotted(path)
    own = name.split(".")[1]
    assert own in LEVEL, f"{own} has no place among the layers"
    for target in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if target == "itaml":  # the public names: for the outermost layer only
            assert LEVEL[own] == len(LAYERS) - 1
            continue
        assert LEVEL[target.split(".")[1]] <= LEVEL[own], f"{name} must not import {target}"


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {}
    for path in MODULES:
        name = dotted(path)
        targets = set(imported(ast.parse(path.read_text(encoding="utf-8")), at_run_time_only=True))
        graph[name] = targets - {name, "itaml"}
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) >= NAMES


def in_fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT.parent), "PATH": "", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_can_be_listed_without_torch() -> None:
    light = [
        "itaml",
        "itaml.inference.bound",
        "itaml.data.benchmarks",
        "itaml.learners",
        "itaml.models",
        "itaml.config",
    ]
    code = f"""
import importlib, sys
for name in {light!r}:
    importlib.import_module(name)
    print(name, "torch" in sys.modules)
from itaml.learners import LEARNERS
from itaml.models import MODELS
print(len(LEARNERS.names()) * len(MODELS.names()) > 0, "torch" in sys.modules)
"""
    assert in_fresh_process(code).splitlines() == [*(f"{name} False" for name in light), "True False"]


def test_the_help_of_every_command_comes_without_torch() -> None:
    code = """
import contextlib, io, sys
from itaml.cli.main import _run, app
names = [command.name for command in app.registered_commands]
for name in names:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = _run([name, "--help"])
    print(name, code, "Usage" in said.getvalue(), "torch" in sys.modules)
"""
    lines = in_fresh_process(code).splitlines()
    assert [line.split()[0] for line in lines] == COMMANDS
    assert {line.partition(" ")[2] for line in lines} == {"0 True False"}


STATE = """
import json, os, random, sys, threading, warnings
import numpy, torch
import torch.optim, torch.func, pydantic, safetensors.torch, scipy.special, sklearn.base, PIL.Image
def state():
    return {
        "python": hash(random.getstate()),
        "numpy": hash(numpy.random.get_state()[1].tobytes()),
        "torch": hash(torch.get_rng_state().numpy().tobytes()),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads(), threading.active_count()],
        "dtype": str(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "grad": torch.is_grad_enabled(),
        "filters": [str(f) for f in warnings.filters],
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "print": torch._tensor_str.PRINT_OPTS.precision,
        "excepthook": repr(sys.excepthook),
        "files": sorted(os.listdir()),
    }
"""


def test_importing_everything_changes_no_global_state(tmp_path: Path) -> None:
    names = sorted(name for name in NAMES if name.split(".")[1] not in LAYERS[-1])
    code = f"""
import os
os.chdir({str(tmp_path)!r})
{STATE}
before = state()
import importlib
for name in {names!r}:
    importlib.import_module(name)
after = state()
print(json.dumps([key for key in before if before[key] != after[key]]))
"""
    assert json.loads(in_fresh_process(code)) == []


UNIX_ONLY = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")


def test_every_module_can_be_imported_where_the_modules_of_unix_are_absent() -> None:
    """Dependencies are imported before, because theirs is not what is tested."""
    names = sorted(NAMES - {"itaml.__main__"})
    code = f"""
import importlib, sys
import torch, numpy, scipy.special, sklearn.base, PIL.Image, pydantic, safetensors.torch, typer, rich.console, pooch
for name in {UNIX_ONLY!r}:
    sys.modules[name] = None
for name in {names!r}:
    importlib.import_module(name)
from itaml.hardware.machine import peak_memory_mb
print(peak_memory_mb())
"""
    assert in_fresh_process(code).split() == ["None"]


def test_public_names_are_there_and_nothing_else_is() -> None:
    for name in itaml.__all__:
        assert getattr(itaml, name) is not None
    assert dir(itaml) == sorted(itaml.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = itaml.nothing
