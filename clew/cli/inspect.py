"""A page in your browser that looks inside runs: what they read and write, where they attend, what their cells keep.

Type a text and see it as the model does, or drop a picture or a sound where the run reads those; write with it step by
step; switch heads off; put two runs side by side. The page is served to this machine alone, and its address is printed
on standard error. Every view has a link that restores it. Files stay in the memory of this command, and end with it.

  clew inspect runs/shakespeare-lstm
  clew inspect runs/shakespeare-lstm runs/shakespeare-gpt
  clew inspect runs/scenes-captioner
  clew inspect runs/tatoeba-transformer --port 9000 --no-browser
  clew inspect runs/shakespeare-gpt --allow-host hub.example.org

--allow-host is for a page that is seen under another name: behind a notebook's proxy, or a forwarded port with a name.
The printed address then holds a token that lets one browser in, once.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run directories")
    add = parser.add_argument
    add("--port", type=int, metavar="N", help="the port (default: 8765, or the next that is free)")
    add("--no-browser", action="store_true", help="open no browser, only print the address")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that the page is seen under; may be repeated",
    )
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the models run")


def run(options: argparse.Namespace) -> int:
    from clew.serving.guard import check_host
    from clew.serving.server import listen

    for name in options.allow_host:
        check_host(name)
    with listen(options.port) as socket:
        return inspect(options, socket)


def inspect(options: argparse.Namespace, socket: Any) -> int:
    """Serves the page at a socket until it is interrupted."""
    from clew.cli.main import complain, leave
    from clew.cli.terminal.progress import say
    from clew.runs.folder.summary import named_runs
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
        say(f"looking inside {', '.join(str(run.folder) for run in runs)}: {address} (Ctrl-C ends it)")
        if not options.no_browser:
            open_browser(address)

    number = serve(guard, socket, ready)
    worker.close()
    if number is None:
        return 0
    leave(complain("interrupted", 128 + number))  # torch may be in the middle of something, and need not end it


def open_browser(address: str) -> None:
    """In a window, where there are windows: a browser in the terminal would take it away."""
    import threading
    import webbrowser

    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def log_to_standard_error() -> None:
    import logging

    logging.getLogger("clew").addHandler(logging.StreamHandler())
