"""`itaml`: puts the commands together and turns errors into one line and an exit code.

A command's module imports nothing heavy at its top, so that help, lists and the bound come without torch.
"""

from __future__ import annotations

import _thread
import codecs
import io
import logging
import os
import sys
import threading
import warnings
from typing import Annotated, Any

import typer

from itaml._version import __version__
from itaml.cli import (
    ablate,
    bound,
    compare,
    data,
    doctor,
    editing,
    export,
    info,
    learn,
    listing,
    predict,
    processes,
    pull,
    push,
    rebase,
    report,
    rollback,
    run,
    serve,
    tune,
    verify,
    watch,
)
from itaml.cli.formatting import printable
from itaml.errors import ItamlError
from itaml.hardware.allocator import keep_freed_memory

LONGEST = 1000  # letters of an error message

app = typer.Typer(
    help="Image classifiers that keep learning new classes: iTAML and the methods that its paper compares.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("learn", short_help="Teach a model new classes from folders of images.")(learn.command)
app.command("predict", short_help="Classify images with a model.")(predict.command)
app.command("info", short_help="Show what a model has learned.")(info.command)
app.command("verify", short_help="Check the files of a model.")(verify.command)
app.command("rollback", short_help="Undo the last learn of a model.")(rollback.command)
app.command("forget", short_help="Remove classes from a model.")(editing.forget)
app.command("rename", short_help="Give a class of a model another name.")(editing.rename)
app.command("merge", short_help="Make two classes of a model one.")(editing.merge)
app.command("relabel", short_help="Move images of a model to another class.")(editing.relabel)
app.command("rebase", short_help="Learn a model again with another backbone or method.")(rebase.command)
app.command("serve", short_help="Serve a model over HTTP, with a page for browsers.")(serve.command)
app.command("export", short_help="Write a model as one ONNX file.")(export.command)
app.command("push", short_help="Upload a model to the Hugging Face Hub.")(push.command)
app.command("pull", short_help="Download a model from the Hugging Face Hub.")(pull.command)
app.command("run", short_help="Train one method on a benchmark.")(run.command)
app.command("compare", short_help="Compare methods on a benchmark.")(compare.command)
app.command("ablate", short_help="Vary one setting of a method.")(ablate.command)
app.command("tune", short_help="Choose settings on a validation split.")(tune.command)
app.command("report", short_help="Write an HTML page about runs.")(report.command)
app.command("watch", short_help="Show the progress of a run.")(watch.command)
app.command("list", short_help="List methods, benchmarks, models or presets.")(listing.command)
app.command("bound", short_help="Compute the size of continua (Algorithm 4).")(bound.command)
app.command("doctor", short_help="Check this machine and the installation.")(doctor.command)
app.add_typer(data.app, name="data", short_help="List and download data sets.")


def _version(show: bool) -> None:
    if show:
        print(f"itaml {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def prepare_process() -> None:
    """Have libraries print no warnings of their own about images and fonts, and let any name be printed."""
    warnings.filterwarnings("ignore", module=r"PIL\.")
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name in a chart has a box instead
    codecs.register_error("itaml", _encode_name)
    sys.unraisablehook = _report_unraisable
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="itaml")


def _report_unraisable(details: Any) -> None:
    """Repeat a Ctrl-C that came while an object was being deleted, where Python would print it and go on."""
    if details.exc_type is KeyboardInterrupt:
        threading.Timer(0.05, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(details)


def _encode_name(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write names of files that are not text as they came in, and other characters that have no bytes as escapes."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    prepare_process()
    given = sys.argv[1:] if arguments is None else arguments
    if processes.command_of(given) in processes.COMMANDS:  # which train
        keep_freed_memory()
    if processes.several():
        processes.run_together(lambda: _run(given), _fail, given)
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        code: Any = app(arguments, standalone_mode=False)
    except ItamlError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", 130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # a full or read-only disk, a folder that may not be entered
        return _fail(*_refused(error))
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own errors
            return _usage(error, error.format_message())
        raise
    return code if isinstance(code, int) else 0


def _refused(error: OSError) -> tuple[str, int]:
    """Return the message and the exit code for what the file system refused; a path that cannot exist is a mistake."""
    from itaml.safe_files import is_impossible_path, reason_of

    if error.filename is not None and is_impossible_path(error):
        return f"{error.filename!s} cannot be a path: {reason_of(error)}", 2
    return str(error), 1


def _usage(error: Exception, message: str) -> int:
    """Report wrong arguments in one line; a group without a command prints its help as it is."""
    if type(error).__name__ == "NoArgsIsHelpError":  # its class is private to typer
        print(message)
        return 0
    return _fail(message, getattr(error, "exit_code", 2))


def _fail(message: str, code: int) -> int:
    first, code = processes.claim(code)
    if not first:
        return code
    text = printable(" ".join(message.split()))
    print(f"error: {text if len(text) <= LONGEST else text[:LONGEST] + '...'}", file=sys.stderr)
    return code
