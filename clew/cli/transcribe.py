"""Write down what is said in sound files, with a language model or without, and draw where each letter was heard: `clew
transcribe` and its options beside the form's."""

import argparse
from pathlib import Path
from typing import Any

from clew.cli.options.forms import add_form, read_forms
from clew.cli.options.spelling import add_language_model, take_language_model
from clew.cli.terminal.progress import say

ENDINGS = (".png", ".svg", ".pdf", ".html", ".json")
MOST_PICTURES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_form(parser, "transcribe", read_forms()["transcribe"])
    parser.add_argument(
        "--attention", metavar="FILE", help="draw where each letter lies in its sound, to FILE.png, .svg, .pdf or .html"
    )
    add_language_model(parser)


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.ask import ask, load_runs

    pictures = None if options.attention is None else Pictures(options.attention)
    [loaded] = load_runs(options, [options.folder])
    take_language_model(options, loaded)
    if pictures is None:
        return ask(options, [loaded])
    status = ask(options, [loaded], seen=pictures.see, with_attention=True)
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
            raise UserError(f"no such folder: {self.path.parent}, where --attention is to write; make it first")
        if self.path.suffix.lower() in (".png", ".pdf"):
            from clew.drawing.figures import load_matplotlib

            load_matplotlib("take .svg, which needs nothing")

    def see(self, answered: Any) -> None:
        from clew.drawing.views import Spelled

        heard = answered.answer[0] if isinstance(answered.answer, list) else answered.answer
        if heard is None or heard.attention is None:
            return
        self.count += 1
        if self.count > MOST_PICTURES:
            return
        looked, canvas = heard.attention, heard.attention.canvas
        title = f"{heard.sound}: {heard.text}"
        self.parts.append(
            Spelled(
                canvas.darkness, looked.weights.numpy(), looked.letters, canvas.length, canvas.unit, canvas.name, title
            )
        )

    def draw(self) -> None:
        from clew.drawing.views import View

        if not self.parts:
            say(f"nothing was transcribed, so that there is no picture in {self.path}")
            return
        View("Where each letter was read", self.parts).save(self.path)
        if self.count > len(self.parts):
            say(f"{self.path} shows the first {len(self.parts)} of {self.count:,} files")
