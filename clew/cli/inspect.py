"""Open a page in the browser that looks inside runs: their tokens and predictions, attention, and cell states.

Type a text to see it as the model does, or drop a picture or a sound if the run reads those; generate text step by
step; switch attention heads off; compare two runs side by side. The page is available on this machine only, and its
address is printed on standard error. Every view has a link that restores it. Files that you drop are kept in memory
only, until the command ends.

  clew inspect runs/shakespeare-lstm
  clew inspect runs/shakespeare-lstm runs/shakespeare-gpt
  clew inspect runs/scenes-captioner
  clew inspect runs/tatoeba-transformer --port 9000 --no-browser
  clew inspect runs/shakespeare-gpt --allow-host hub.example.org

--allow-host is for a page that is reached under another host name: through a notebook's proxy, or a forwarded port. The
printed address then contains a token, which admits one browser, once.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run directories")
    add = parser.add_argument
    add("--port", type=int, metavar="N", help="the port (default: 8765, or the next free one)")
    add("--no-browser", action="store_true", help="print the address, but open no browser")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="accept requests to this host name too; may be repeated",
    )
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")


def run(options: argparse.Namespace) -> int:
    from clew.serving.guard import check_host
    from clew.serving.server import listen

    for name in options.allow_host:
        check_host(name)
    with listen(options.port) as socket:
        return inspect(options, socket)


def inspect(options: argparse.Namespace, socket: Any) -> int:
    """Serve the page on a socket until interrupted."""
    from clew.cli.main import complain, exit_at_once
    from clew.cli.terminal.progress import say
    from clew.runs.folder.records import named_runs
    from clew.runs.loaded import load_run
    from clew.serving.guard import Guard
    from clew.serving.inspector import Inspector
    from clew.serving.page import page_app
    from clew.serving.server import HOST, serve
    from clew.serving.worker import Worker

    code = None if options.code is None else Path(options.code)
    runs = [load_run(folder, device=options.device, code=code) for folder in named_runs(options.runs)]
    if options.debug:
        log_to_standard_error()
    worker = Worker()
    port = socket.getsockname()[1]
    inspector = Inspector(runs)
    app = page_app(inspector, worker, debug=options.debug)
    guard = Guard(app, hosts=options.allow_host, port=port, most_bytes=inspector.most_bytes)
    address = f"http://{HOST}:{port}/" + (f"?token={guard.token}" if guard.token else "")

    def ready() -> None:
        say(f"looking inside {', '.join(str(run.folder) for run in runs)}: {address} (stop with Ctrl-C)")
        if not options.no_browser:
            open_browser(address)

    number = serve(guard, socket, ready)
    worker.close()
    if number is None:
        return 0
    exit_at_once(complain("interrupted", 128 + number))  # without waiting for torch to finish its work


def open_browser(address: str) -> None:
    """Open a browser if there is a graphical desktop: a text browser would take over the terminal."""
    import threading
    import webbrowser

    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def log_to_standard_error() -> None:
    import logging

    logging.getLogger("clew").addHandler(logging.StreamHandler())
