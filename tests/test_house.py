"""The shape of the code: sizes of files, one name for one thing, one training loop, few hooks."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import itaml
from itaml.learners import LEARNERS, method
from itaml.learners.method import Method

ROOT = Path(itaml.__file__).parent
FILES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in FILES.items()}
METHODS = {entry.name: entry.load() for entry in LEARNERS if entry.target.startswith("itaml.")}
TRAINED = [name for name, kind in METHODS.items() if issubclass(kind, Method)]
HOOKS = re.findall(r"^\| `(\w+)\(.*?\)`", inspect.getdoc(method) or "", flags=re.MULTILINE)
OTHERS = {"__init__", "from_settings"}  # what a method may define beside hooks


def length(name: str) -> int:
    return len(FILES[name].splitlines())


def nodes(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for name, tree in TREES.items():
        yield from ((name, node) for node in ast.walk(tree) if isinstance(node, kind))


def files_that_call(pattern: str) -> Counter[str]:
    """Count, for each file, the calls of what matches `pattern` from its start."""
    found: Counter[str] = Counter()
    for name, node in nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if re.fullmatch(pattern, ast.unparse(node.func)):
            found[name] += 1
    return found


def test_no_file_has_more_than_250_lines() -> None:
    assert [name for name in FILES if length(name) > 250] == []


def test_every_method_has_under_150_lines_and_itaml_under_120() -> None:
    sizes = {name: length(name) for name in FILES if name.startswith("learners/methods/")}
    assert [name for name, lines in sizes.items() if lines >= 150] == []
    assert sizes["learners/methods/itaml.py"] < 120


def test_at_most_eight_hooks_are_documented_and_exist() -> None:
    assert len(HOOKS) == len(set(HOOKS)) <= 8
    assert [name for name in HOOKS if not callable(getattr(Method, name, None))] == []


@pytest.mark.parametrize("name", TRAINED)
def test_a_method_inherits_from_method_alone_and_overrides_hooks_alone(name: str) -> None:
    kind = METHODS[name]
    assert kind.__bases__ == (Method,)
    overridden = {attribute for attribute in vars(kind) if inspect.isfunction(getattr(Method, attribute, None))}
    assert overridden <= {*HOOKS, *OTHERS}


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(TRAINED)))
def test_a_method_without_gradient_steps_inherits_from_nothing(name: str) -> None:
    assert METHODS[name].__bases__ == (object,)


def test_the_optimizer_steps_in_one_place() -> None:
    assert files_that_call(r"(.*\.)?_?optimizer\.step") == {"optimizers.py": 1}


def test_one_module_imports_torch_distributed() -> None:
    pattern = re.compile(
        r"^\s*(from|import) torch\.distributed|from torch import .*\bdistributed\b", flags=re.MULTILINE
    )
    assert [name for name, text in FILES.items() if pattern.search(text)] == ["distributed.py"]


def test_a_method_steps_in_the_trainer_alone() -> None:
    assert files_that_call(r"(.*\.)?method\.step") == {"learners/trainer.py": 1}


def test_the_trainer_alone_loops_over_epochs_of_a_task() -> None:
    loops = [
        name
        for name, node in nodes(ast.For)
        if isinstance(node, ast.For) and re.search(r"range\(.*epochs", ast.unparse(node.iter))
    ]
    assert loops == ["learners/trainer.py"]


def test_the_runner_alone_learns_the_tasks_of_an_experiment() -> None:
    assert [name for name in files_that_call(r"(.*\.)?learner\.learn") if name.startswith("experiment/")] == [
        "experiment/runner.py"
    ]


def test_two_files_never_share_a_name() -> None:
    """A file of `cli/` has the name of its command, which may be that of the module behind it."""
    names = Counter(Path(name).name for name in FILES if not name.startswith("cli/"))
    del names["__init__.py"]
    assert [name for name, count in names.items() if count > 1] == []


def test_two_public_classes_never_share_a_name() -> None:
    names = Counter(node.name for _, node in nodes(ast.ClassDef) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1 and not name.startswith("_")] == []


def test_no_module_compares_the_name_of_a_backbone() -> None:
    """Traits of backbones are data (`itaml.models.BackboneTraits`)."""
    pattern = re.compile(r"backbone\W{1,4}\s*[!=]=\s*[\"']|[\"']mlp[\"']\s*[!=]=|[!=]=\s*[\"']mlp[\"']")
    assert [name for name, text in FILES.items() if pattern.search(text)] in ([], ["modelstore/defaults.py"])
