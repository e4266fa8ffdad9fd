"""The `clew` command: finds the verb, runs it, and reports errors as one line and an exit code. Imports nothing heavy
itself."""

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any, NoReturn

from clew.cli.options.forms import add_form
from clew.cli.terminal.help import Help, usage_line
from clew.cli.terminal.progress import quieted
from clew.cli.terminal.screen import screens
from clew.cli.verbs import FORMER, FORMS, OPTIONS, VERBS, find_verb, listing, module_name, see_also


class Terminated(KeyboardInterrupt):
    """SIGTERM, which is handled like Ctrl-C."""


def terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


LONGEST = 300
"""Most characters of an argparse message, which may quote a whole text from the command line."""


class Parser(argparse.ArgumentParser):
    """Report errors in one line, as everywhere else, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        message = message if len(message) <= LONGEST else message[:LONGEST] + "..."
        self.exit(complain(f"{message}{'' if message.endswith('?') else ';'} `{self.prog} --help` shows how"))


def build_parser() -> Parser:
    """Return the parser for commands without a verb, whose help lists the verbs; import none of them."""
    from clew import __version__

    parser = Parser(
        prog="clew",
        usage="clew [-h] [--version] VERB ...",
        description=f"Train, run and inspect neural sequence models, from the Elman RNN to Llama.\n\n{listing()}",
        epilog="first command:  clew train shakespeare-lstm\nhelp on a verb:  clew VERB --help",
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"clew {__version__}")
    return parser


def verb_parser(verb: str) -> Parser:
    """Return the parser for the words after a verb; options may stand anywhere among the positional arguments."""
    verb = FORMER.get(verb, verb)
    module = module_of(verb)
    about = (module.__doc__ if module is not None else None) or ""
    if verb in FORMS and (FORMS[verb]["help"] or not about):
        about = f"{FORMS[verb]['about'][0].upper()}{FORMS[verb]['about'][1:]}.\n\n{FORMS[verb]['help']}"
    parser = Parser(prog=f"clew {verb}", description=about, epilog=see_also(verb), formatter_class=Help)
    if module is not None:
        module.add_arguments(parser)
        parser.set_defaults(run=module.run)
    else:
        add_form(parser, verb, FORMS[verb])
        parser.set_defaults(run=run_form)
    add_code(parser)
    parser.usage = usage_line(parser)
    return parser


class Code(argparse.Action):
    """Collect --code files: the first belongs to the run, and the others are only imported."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option: str | None = None
    ) -> None:
        if namespace.code is None:
            namespace.code = value
        else:
            namespace.more_code = (*namespace.more_code, value)


def add_code(parser: argparse.ArgumentParser) -> None:
    """Add the options that every verb has."""
    about_code = (
        "import your own Python file first, which may add cells, tasks, formats, ...; may be repeated, and the first is"
        " stored with the run"
    )
    parser.add_argument("--code", metavar="FILE.py", action=Code, help=about_code)
    parser.set_defaults(more_code=())
    about_trust = (
        "allow a run that was trained elsewhere to read the files named in its config; the choice is remembered"
    )
    parser.add_argument("--trust", action="store_true", help=about_trust)
    parser.add_argument("--quiet", action="store_true", help="print only errors on standard error")
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors, and log how decoding runs")


def module_of(verb: str) -> ModuleType | None:
    """Import the module of a verb; return None for a named form without its own module."""
    name = f"clew.cli.{module_name(verb)}"
    return import_module(name) if verb not in FORMS or find_spec(name) is not None else None


def run_form(options: argparse.Namespace) -> int:
    from clew.cli.options import ask

    return ask.run(options)


def main(arguments: list[str] | None = None) -> int:
    before = signal.signal(signal.SIGTERM, terminate) if threading.current_thread() is threading.main_thread() else None
    words = sys.argv[1:] if arguments is None else arguments
    open_streams()
    # Pipes carry UTF-8, as files do, regardless of the system's code page; a file name may still hold any bytes.
    for stream, errors in ((sys.stdin, "strict"), (sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    try:
        call = find_verb(words)
        with screens(exact=call is not None and call.answers):
            return run(words)
    except KeyboardInterrupt as stop:
        message, status = "; ".join(["interrupted", *map(str, stop.args)]), 143 if isinstance(stop, Terminated) else 130
        with screens(exact=True):
            return complain(message, status)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def open_streams() -> None:
    """Replace standard streams that the caller closed, as `>&-` does, by empty ones. Otherwise the next opened file
    would get their number, and libraries would print into it."""
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; report errors in one line."""
    if not arguments or arguments[0].startswith("-"):
        parser = build_parser()
        parser.parse_args(arguments)
        parser.print_help()
        return 0
    call = find_verb(arguments)
    if call is None:
        from clew.core.errors import STRICT, named, unknown

        if arguments[0] in OPTIONS:
            return complain(f"unknown verb {named(arguments[0])}; did you mean `clew {OPTIONS[arguments[0]]}`?")
        return complain(str(unknown("verb", arguments[0], VERBS, STRICT)))
    rest = call.words
    parser = verb_parser(call.verb)
    options, unknown_words = parser.parse_known_intermixed_args(rest)
    if unknown_words and not getattr(options, "open", False):
        from clew.cli.options.meant import suggest_option, suggest_verb

        suggestion = suggest_verb(call.verb, rest) or suggest_option(parser, unknown_words, rest)
        parser.error(f"unrecognized arguments: {' '.join(unknown_words)}{suggestion}")
    options.command_line = rest
    from clew.core.wording import on_command_line, worded

    try:
        with trusted(options.trust), logged(options.debug), quieted(options.quiet), worded(on_command_line):
            if options.code is not None:
                load_files([options.code, *options.more_code])
            status = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Python flushes standard output again at exit, which would fail on the closed pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            raise
        status = explain(error, call.verb, rest, [options.code, *options.more_code] if options.code else [])
        if int(os.environ.get("WORLD_SIZE", 1)) > 1:
            exit_at_once(status)
        return status


def load_files(files: Sequence[str]) -> None:
    from pathlib import Path

    from clew.cli.options.code import load_code

    for file in files:
        load_code(Path(file))


@contextmanager
def logged(enabled: bool) -> Iterator[None]:
    """Send the messages of clew's loggers to standard error within this context, if enabled."""
    if not enabled:
        yield
        return
    import logging

    logger, handler = logging.getLogger("clew"), logging.StreamHandler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def trusted(accepted: bool) -> AbstractContextManager[None]:
    if not accepted:
        return nullcontext()
    from clew.runs.trust import accepting

    return accepting()


def exit_at_once(status: int) -> NoReturn:
    """Exit without cleaning up: freeing what the error refers to can make torch wait for ever for another process that
    died."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def explain(error: Exception, verb: str, words: Sequence[str], code: Sequence[str] = ()) -> int:
    """Report an error in one line: the user's mistake, a fault of the machine, or else a bug in clew or in the user's
    files of code."""
    from clew.cli.options.meant import suggest_verb
    from clew.core.errors import UserError, innermost_place

    if isinstance(error, UserError):
        return complain(f"{error}{'' if 'did you mean' in str(error) else suggest_verb(verb, words)}")
    if type(error).__name__ == "Interrupted":
        return complain(str(error), 128 + error.number)  # type: ignore[attr-defined]
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"{where}{error.strerror or error}")
    own_files = set(map(os.path.realpath, code))
    place = innermost_place(error, lambda file: os.path.realpath(file) in own_files)
    where = place or "this is a bug in clew or in your own code"
    return complain(f"{where}: {type(error).__name__}: {error}; --debug shows the traceback", 1)


def complain(text: str, status: int = 2) -> int:
    """Print an error on standard error and return the exit code."""
    process = os.environ.get("RANK", "0")
    print(f"clew: {'' if process == '0' else f'process {process}: '}{' '.join(text.split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
