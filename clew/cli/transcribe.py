"""`clew transcribe`: transcribe sound files, optionally with a language model, and draw where each character was heard.
The options shared with `clew predict` come from the form."""

import argparse
from pathlib import Path
from typing import Any

from clew.cli.options.forms import add_form, read_forms
from clew.cli.options.spelling import add_language_model, set_language_model
from clew.cli.terminal.progress import say

ENDINGS = (".png", ".svg", ".pdf", ".html", ".json")
MOST_PICTURES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_form(parser, "transcribe", read_forms()["transcribe"])
    parser.add_argument(
        "--attention",
        metavar="FILE",
        help="draw where in the sound each character was heard, to FILE.png, .svg, .pdf, .html or .json",
    )
    add_language_model(parser)


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.ask import ask, load_runs

    pictures = None if options.attention is None else Pictures(options.attention)
    [loaded] = load_runs(options, [options.folder])
    set_language_model(options, loaded)
    if pictures is None:
        return ask(options, [loaded])
    status = ask(options, [loaded], on_answer=pictures.see, with_attention=True)
    pictures.draw()
    return status


class Pictures:
    """The file that --attention names."""

    def __init__(self, name: str):
        from clew.core.errors import UserError

        self.path = Path(name)
        self.parts: list[Any] = []
        self.count = 0
        if self.path.suffix.lower() not in ENDINGS:
            raise UserError(f"--attention ({name}) must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
        if not self.path.parent.is_dir():
            raise UserError(f"no such folder for --attention: {self.path.parent}; create it first")
        if self.path.suffix.lower() in (".png", ".pdf"):
            from clew.drawing.figures import load_matplotlib

            load_matplotlib("use .svg, which needs no other package")

    def see(self, answered: Any) -> None:
        from clew.drawing.views import Spelled

        transcript = answered.answer[0] if isinstance(answered.answer, list) else answered.answer
        if transcript is None or transcript.attention is None:
            return
        self.count += 1
        if self.count > MOST_PICTURES:
            return
        attention, canvas = transcript.attention, transcript.attention.canvas
        title = f"{transcript.sound}: {transcript.text}"
        self.parts.append(
            Spelled(
                canvas.darkness,
                attention.weights.numpy(),
                attention.letters,
                canvas.length,
                canvas.unit,
                canvas.name,
                title,
            )
        )

    def draw(self) -> None:
        from clew.drawing.views import View

        if not self.parts:
            say(f"nothing was transcribed, so {self.path} was not written")
            return
        View("Where each letter was read", self.parts).save(self.path)
        if self.count > len(self.parts):
            say(f"{self.path} shows the first {len(self.parts)} of {self.count:,} files")
