"""The command: finds the verb, runs it, and turns what goes wrong into one line and an exit code. Imports nothing heavy
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
from clew.cli.terminal.help import Help, usage_of
from clew.cli.terminal.progress import quieted
from clew.cli.terminal.screen import screens
from clew.cli.verbs import FORMER, FORMS, OPTIONS, VERBS, file_of, find_verb, listing, see_also


class Terminated(KeyboardInterrupt):
    """SIGTERM, which is obeyed as Ctrl-C is."""


def terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


LONGEST = 300
"""Characters of what is said of the words of a command, which may be a whole text."""


class Parser(argparse.ArgumentParser):
    """Says a mistake in one line, as every other mistake is said, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        message = message if len(message) <= LONGEST else message[:LONGEST] + "..."
        self.exit(complain(f"{message}{'' if message.endswith('?') else ';'} `{self.prog} --help` shows how"))


def build_parser() -> Parser:
    """What comes before the verb, and the list of verbs; it imports none of them."""
    from clew import __version__

    parser = Parser(
        prog="clew",
        usage="clew [-h] [--version] VERB ...",
        description=f"Train, run and look into neural sequence models, from the Elman RNN to Llama.\n\n{listing()}",
        epilog="begin with:  clew train shakespeare-lstm\nhelp on a verb:  clew VERB --help",
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"clew {__version__}")
    return parser


def verb_parser(verb: str) -> Parser:
    """What comes after a verb; its options may stand anywhere among settings and prompts."""
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
    parser.usage = usage_of(parser)
    return parser


class Code(argparse.Action):
    """The first file is the one that a run was trained with, or is; those behind it are imported besides."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option: str | None = None
    ) -> None:
        if namespace.code is None:
            namespace.code = value
        else:
            namespace.more_code = (*namespace.more_code, value)


def add_code(parser: argparse.ArgumentParser) -> None:
    """What every verb takes."""
    about_code = (
        "import this file of yours first: it adds cells, tasks, formats to the tables; of several the first is the"
        " run's"
    )
    parser.add_argument("--code", metavar="FILE.py", action=Code, help=about_code)
    parser.set_defaults(more_code=())
    about_trust = (
        "read the files that a run's config names, wherever they are, though it was not trained here; remembered"
    )
    parser.add_argument("--trust", action="store_true", help=about_trust)
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error but what went wrong")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error, and how decoding runs")


def module_of(verb: str) -> ModuleType | None:
    """The file of a verb; None of one that is a named form and nothing more."""
    name = f"clew.cli.{file_of(verb)}"
    return import_module(name) if verb not in FORMS or find_spec(name) is not None else None


def run_form(options: argparse.Namespace) -> int:
    from clew.cli.options import ask

    return ask.run(options)


def main(arguments: list[str] | None = None) -> int:
    before = signal.signal(signal.SIGTERM, terminate) if threading.current_thread() is threading.main_thread() else None
    given = sys.argv[1:] if arguments is None else arguments
    # Text is UTF-8 in files, and so it is on pipes, whatever the system's code page; a file may still have a name of
    # any bytes.
    for stream, errors in ((sys.stdin, "strict"), (sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    try:
        call = find_verb(given)
        with screens(exact=call is not None and call.answers):
            return obeyed(given)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def obeyed(arguments: list[str]) -> int:
    """The status of a command, which may be interrupted."""
    try:
        return run(arguments)
    except KeyboardInterrupt as stop:
        return complain("; ".join(["interrupted", *map(str, stop.args)]), 143 if isinstance(stop, Terminated) else 130)


def run(arguments: list[str]) -> int:
    """One command; what goes wrong in it is one line."""
    if not arguments or arguments[0].startswith("-"):
        parser = build_parser()
        parser.parse_args(arguments)
        parser.print_help()
        return 0
    call = find_verb(arguments)
    if call is None:
        from clew.core.errors import named, unknown

        if arguments[0] in OPTIONS:
            return complain(f"unknown verb {named(arguments[0])}; did you mean `clew {OPTIONS[arguments[0]]}`?")
        return complain(str(unknown("verb", arguments[0], VERBS)))
    rest = call.words
    parser = verb_parser(call.verb)
    options, more = parser.parse_known_intermixed_args(rest)
    if more and not getattr(options, "open", False):
        from clew.cli.options.meant import option_meant, verb_meant

        meant = verb_meant(call.verb, rest) or option_meant(parser, more, rest)
        parser.error(f"unrecognized arguments: {' '.join(more)}{meant}")
    options.command_line = rest
    try:
        if options.code is not None:
            from pathlib import Path

            from clew.cli.options.code import load_code

            for file in (options.code, *options.more_code):
                load_code(Path(file))
        with trusting(options.trust), telling(options.debug), quieted(options.quiet):
            status = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Python flushes standard output once more at exit; it must not find the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            raise
        status = explain(error, call.verb, rest)
        if int(os.environ.get("WORLD_SIZE", 1)) > 1:
            leave(status)
        return status


@contextmanager
def telling(asked: bool) -> Iterator[None]:
    """Within this context what clew's own loggers say goes to standard error, where that is asked for."""
    if not asked:
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


def trusting(accepted: bool) -> AbstractContextManager[None]:
    if not accepted:
        return nullcontext()
    from clew.runs.trust import accepting

    return accepting()


def leave(status: int) -> NoReturn:
    """Ends one process of several at once: torch may wait for ever for another that died when what the error holds on
    to is tidied up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def explain(error: Exception, verb: str, words: Sequence[str]) -> int:
    """One line for a mistake of the user's or a fault of the machine's; anything else is ours, and says so."""
    from clew.cli.options.meant import verb_meant
    from clew.core.errors import UserError

    if isinstance(error, UserError):
        return complain(f"{error}{'' if 'did you mean' in str(error) else verb_meant(verb, words)}")
    if type(error).__name__ == "Interrupted":
        return complain(str(error), 128 + error.number)  # type: ignore[attr-defined]
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"{where}{error.strerror or error}")
    return complain(
        f"this is a fault in clew or in code of yours: {type(error).__name__}: {error}; --debug shows where", 1
    )


def complain(text: str, status: int = 2) -> int:
    process = os.environ.get("RANK", "0")
    print(f"clew: {'' if process == '0' else f'process {process}: '}{' '.join(text.split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
