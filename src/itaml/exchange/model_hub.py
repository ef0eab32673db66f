"""Push models to the Hugging Face Hub and pull them from there. A pulled model is checked like any stranger's."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itaml.errors import CheckpointError, ItamlError, MissingExtraError, UsageError
from itaml.exchange.model_card import model_card
from itaml.modelstore.model_folder import POINTER, VERSIONS
from itaml.modelstore.repair import verify
from itaml.modelstore.shared_files import EXEMPLARS, TABLES

if TYPE_CHECKING:
    from itaml.modelstore.image_classifier import ImageClassifier

CARD = "README.md"
PATTERNS = [POINTER, f"{VERSIONS}/*", f"{EXEMPLARS}/*", f"{TABLES}/*", CARD]  # what is pulled, and nothing else
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
MAX_PULLED = 20_000_000_000  # bytes


def push(
    classifier: ImageClassifier, repo: str, *, licence: str = "other", private: bool = True, token: str | None = None
) -> str:
    """Upload the version in memory with its card; return its address. Images that the model keeps are uploaded too.

    Args:
        classifier: the model.
        repo: `user/name`; it is made if it does not exist.
        licence: an identifier for the card, such as `apache-2.0`.
        private: only its owner sees a repository that is made.
        token: of an account; that of `hf auth login` if not given.

    Raises:
        UsageError: `repo` is not a name.
        DataError: nothing was learned yet.
        ItamlError: the hub refused.
        MissingExtraError: the extra `hub` is not installed.
    """
    api = _api(repo, token)
    with tempfile.TemporaryDirectory() as folder:
        write_for_hub(classifier, Path(folder) / "model", name=repo.split("/")[1], licence=licence, repo=repo)
        try:
            url = api.create_repo(repo, private=private, exist_ok=True, repo_type="model")
            api.upload_folder(
                repo_id=repo,
                folder_path=Path(folder) / "model",
                commit_message=f"Version {classifier.version}: {len(classifier.classes)} classes",
                delete_patterns=[pattern for pattern in PATTERNS if pattern != CARD],
            )
        except Exception as error:  # of the hub, of its HTTP client, or of the network
            raise ItamlError(f"{repo} could not be pushed: {_said(error)}") from error
    return str(url)


def write_for_hub(
    classifier: ImageClassifier, path: Path, *, name: str, licence: str = "other", repo: str | None = None
) -> None:
    """Write what `push` uploads to a folder: a copy of the version in memory, and its card.

    Raises:
        UsageError: there is something at `path`.
        DataError: nothing was learned yet.
    """
    card = model_card(classifier, name=name, licence=licence, repo=repo)
    classifier.save(path)
    (path / "lock").unlink(missing_ok=True)
    (path / CARD).write_text(card, encoding="utf-8")


def pull(repo: str, path: str | os.PathLike[str], *, revision: str | None = None, token: str | None = None) -> int:
    """Download a model to a new folder; return how many files were checked.

    The files of a model alone are taken, as regular files, and each is compared with its checksum; docs/security.md
    says what a model of a stranger can do.

    Args:
        repo: `user/name`.
        path: a folder that does not exist.
        revision: a branch, tag or commit; the newest if not given.
        token: of an account, for private repositories.

    Raises:
        UsageError: `repo` is not a name, or there is something at `path`.
        CheckpointError: what is there is not a model, or is damaged.
        ItamlError: the hub refused.
        MissingExtraError: the extra `hub` is not installed.
    """
    target = Path(path)
    if os.path.lexists(target):
        raise UsageError(f"there is something at {target}; pull into a new folder")
    api = _api(repo, token)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pull-") as folder:
        loaded, clean = Path(folder) / "loaded", Path(folder) / "model"
        try:
            api.snapshot_download(repo, revision=revision, local_dir=loaded, allow_patterns=PATTERNS)
        except Exception as error:  # of the hub, of its HTTP client, or of the network
            raise ItamlError(f"{repo} could not be pulled: {_said(error)}") from error
        _take(loaded, clean, repo)
        try:
            checked, problems = verify(clean)
        except UsageError:
            raise CheckpointError(f"{repo} is not a model of itaml: it has no {POINTER}") from None
        if problems:
            raise CheckpointError(f"{repo} is damaged, and was not kept: {problems[0]}")
        clean.replace(target)
    return checked


def _take(loaded: Path, clean: Path, repo: str) -> None:
    """Copy the regular files that belong to a model; links and everything else are left behind or refused."""
    total = 0
    for folder, names, files in os.walk(loaded):
        names[:] = [name for name in names if name in (VERSIONS, EXEMPLARS, TABLES) or Path(folder) != loaded]
        for name in (*files, *names):
            source = Path(folder) / name
            if source.is_symlink() or not (source.is_file() or source.is_dir()):
                raise CheckpointError(f"{repo} is not safe: {source.relative_to(loaded)} is not a regular file")
        for name in files:
            source = Path(folder) / name
            if Path(folder) == loaded and name not in (POINTER, CARD):
                continue
            total += source.stat().st_size
            if total > MAX_PULLED:
                raise CheckpointError(f"{repo} has more than {MAX_PULLED // 10**9} GB")
            place = clean / source.relative_to(loaded)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    if not clean.is_dir():
        raise CheckpointError(f"{repo} is not a model of itaml: it has no {POINTER}")


def _api(repo: str, token: str | None) -> Any:
    if not NAME.fullmatch(repo):
        raise UsageError(f"a repository is named user/name, not {repo!r}")
    try:
        hub = import_module("huggingface_hub")
    except ImportError:
        raise MissingExtraError("the Hugging Face Hub needs the extra hub: pip install 'itaml[hub]'") from None
    return hub.HfApi(token=token, library_name="itaml")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
