"""The exceptions of the package: one root, a child for each kind of trouble a caller can act on."""

from __future__ import annotations

import copy


class ItamlError(Exception):
    """Anything that `itaml` refuses to do, with a message for the user.

    `exit_code` is what the command line exits with: 2 for a request that cannot be meant, 1 for one that failed.
    """

    exit_code = 1


class UsageError(ItamlError):
    """The request itself is wrong: a name, an option or a combination of them."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A method, benchmark, model, preset or setting that does not exist."""


class SettingsError(UsageError):
    """A setting of the wrong type or an impossible combination of settings."""


class BoundError(UsageError):
    """No continuum, however long, reaches the required task accuracy."""


class RunExistsError(UsageError):
    """A run folder is already there, and neither resume nor force was given."""


class DataError(ItamlError):
    """Data that is missing, unreadable or not what it should be."""


class CheckpointError(ItamlError):
    """A saved state that is corrupt, foreign or of another format."""


class UnsafeFileError(ItamlError):
    """A file that is a link, not a regular file, or larger than its limit, and was therefore not read."""


class TrainingError(ItamlError):
    """Training went wrong in a way that going on cannot mend, such as a loss that is not a number."""


class InterruptedRunError(ItamlError):
    """The user stopped a run; what was done is saved."""

    exit_code = 130


class MissingExtraError(ItamlError):
    """An optional dependency is needed and absent; the message names the extra to install."""


class PeerError(ItamlError):
    """Another process of a run over several processes was lost."""


def sendable(error: Exception) -> Exception:
    """Return an error as the other processes get it: expected ones as they are, if they can be sent, others by name."""
    if not isinstance(error, (ItamlError, OSError)):
        return PeerError(f"another process of this run failed: {type(error).__name__}: {error}")
    try:
        return copy.copy(error)  # fails, as sending would, where the arguments are not those of its class
    except TypeError:
        return ItamlError(str(error))
