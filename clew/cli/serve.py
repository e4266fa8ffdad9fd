"""Serve what a run does to programs: JSON in, JSON out, over HTTP.

A route a verb: POST /generate, /translate, /parse, /tag, /classify, /fill, /answer, /caption or /transcribe, whichever
the run does, and /embed. A request has one text or several, and the verb's options; the answer has the objects that the
verb prints with --json. Of a run that reads pictures or sounds a request sends the bytes of files in base64, and no
paths.

  clew serve runs/sentiment-lstm
  clew serve runs/shakespeare-gpt --port 9000 --batch 64 --wait 10
  clew serve runs/sentiment-lstm runs/tatoeba-transformer
  clew serve runs/sentiment-lstm --host 0.0.0.0 --allow-host models.example.org

The first is asked with
curl -H 'Content-Type: application/json' -d '{"text": "A fine film."}' http://127.0.0.1:8765/classify
and a captioner with {"picture": {"data": "BASE64", "name": "scene.png"}} at /caption.

Of several runs each has routes of its own, /RUN/VERB. Requests that wait together and have equal options are answered
by one call of the model; texts that are generated are written in a running batch, which requests join and leave
whatever their options. They can be sent piece by piece ({"stream": true}). Clients of OpenAI's API find /v1/models,
/v1/completions, /v1/chat/completions and /v1/embeddings, which take the folder's name as the model. GET / lists the
routes and their options, /health says whether the server answers, and /metrics has counts for Prometheus, with what the
texts of requests are like beside those of the training data. No text is kept or logged.

The server answers this machine alone. With --host it listens to others; requests then come under a name that
--allow-host gives, and bring the key that is printed at the start: Authorization: Bearer KEY. The variable CLEW_KEY
gives another key.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from clew.cli.options.precision import add_precision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run directories")
    add = parser.add_argument
    add("--port", type=int, metavar="N", help="the port (default: 8765, or the next that is free)")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen at (default: 127.0.0.1, this machine alone)",
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that the server is asked under; may be repeated",
    )
    add("--batch", type=int, default=64, metavar="N", help="texts that are answered together at most (default: 64)")
    add(
        "--wait",
        type=float,
        default=5.0,
        metavar="MS",
        help="milliseconds that a request waits for others (default: 5)",
    )
    add(
        "--queue",
        type=int,
        default=64,
        metavar="N",
        help="requests that wait at most; more are told to come back (default: 64)",
    )
    add(
        "--prefixes",
        type=int,
        default=64,
        metavar="MB",
        help="megabytes held of what prompts have in common; 0: none (default: 64)",
    )
    add(
        "--chat-template",
        type=Path,
        metavar="FILE",
        help="how /v1/chat/completions makes a prompt of messages (JSON; see the guide)",
    )
    add(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds in which a request has its answer (default: 60)",
    )
    add(
        "--longest",
        type=int,
        default=10_000,
        metavar="N",
        help="characters of a text, or places of a file, at most (default: 10,000)",
    )
    add(
        "--no-training",
        action="store_true",
        help="do not read the training data for the values that /metrics sets beside the requests'",
    )
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the models run")
    add_precision(parser)


GRACE = 3.0
"""Seconds in which what is under way may end."""
SHAPES = 32
"""Shapes of batches whose programs oneDNN keeps; its own 1,024 take tens of megabytes that come bit by bit and look
like a leak."""


def run(options: argparse.Namespace) -> int:
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(SHAPES))  # read when torch is loaded, which is now
    from clew import __version__
    from clew.cli.inspect import log_to_standard_error
    from clew.cli.main import complain, leave
    from clew.cli.terminal.progress import say
    from clew.runs.folder.summary import named_runs
    from clew.runs.loaded import load_run
    from clew.serving.connections import Connections, most_connections
    from clew.serving.guard import Guard, check_host
    from clew.serving.server import listen, serve
    from clew.serving.service import Service
    from clew.serving.worker import Worker

    check_options(options)
    for name in options.allow_host:
        check_host(name)
    with listen(options.port, options.host) as socket:
        code = None if options.code is None else Path(options.code)
        runs = [
            load_run(folder, device=options.device, code=code, precision=options.precision)
            for folder in named_runs(options.runs)
        ]
        if options.debug:
            log_to_standard_error()
        worker = Worker(longest_queue=2 * options.queue + 1)
        limits = {
            "batch": options.batch,
            "templates": options.chat_template,
            "prefixes": options.prefixes * 2**20,
            "wait": options.wait / 1000,
            "queue": options.queue,
            "seconds": options.timeout,
        }
        service = Service(runs, worker, **limits, longest=options.longest, version=__version__, debug=options.debug)
        if not options.no_training:
            read_training(service)
        key = os.environ.get("CLEW_KEY") or (new_key() if is_open(options) else None)
        guard = Guard(
            service.app(),
            hosts=options.allow_host,
            key=key,
            anywhere=is_open(options),
            most_bytes=service.most_bytes,
            refused=service.turned_away,
        )
        address = f"http://{f'[{options.host}]' if ':' in options.host else options.host}:{socket.getsockname()[1]}"

        def ready() -> None:
            say(f"serving {', '.join(str(run.folder) for run in runs)}: {address} (Ctrl-C ends it)")
            for path in service.routes:
                say(f"  POST {address}{path}")
            if service.openai.paths:
                say(f"  {address}/v1 for clients of OpenAI's API")
            if key is not None and not os.environ.get("CLEW_KEY"):
                say(f"  every request brings the header  Authorization: Bearer {key}")

        connections = Connections(most_connections(), cut=service.cut)
        number = serve(guard, socket, ready, grace=GRACE, give_up=lambda: worker.close(0), connections=connections)
    worker.close()
    if number is None:
        return 0
    leave(complain("interrupted", 128 + number))  # torch may be in the middle of something, and need not end it


def check_options(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    for name, least in {"batch": 1, "queue": 1, "longest": 1, "wait": 0.0, "prefixes": 0}.items():
        if not getattr(options, name) >= least:
            raise UserError(f"--{name} ({getattr(options, name)}) must be at least {least:g}")
    if not options.wait <= 1000:
        raise UserError(f"--wait ({options.wait:g}) is in milliseconds, and at most 1000")
    if not 0 < options.timeout <= 3600:
        raise UserError(f"--timeout ({options.timeout:g}) is in seconds, above 0 and at most 3600")
    if options.host not in LOOPBACK and not options.allow_host:
        raise UserError(
            f"--host {options.host} listens to other machines; say with --allow-host NAME under which name they ask"
        )


def is_open(options: argparse.Namespace) -> bool:
    """Whether others than this machine may ask, by themselves or through a proxy."""
    return options.host not in LOOPBACK or bool(options.allow_host)


def new_key() -> str:
    import secrets

    return secrets.token_urlsafe(24)


def read_training(service: Any) -> None:
    """What the training data is like; where it is not at hand, that is said."""
    from clew.cli.terminal.progress import say
    from clew.core.errors import UserError
    from clew.serving.profiles import training_profile

    for name, run in service.runs.items():
        try:
            service.trained[name] = training_profile(run)
        except (UserError, OSError) as error:
            say(f"{run.folder}: /metrics has no values of the training data, which is not at hand: {error}")


LOOPBACK = ("127.0.0.1", "localhost", "::1")
