"""Serve runs over HTTP, with JSON requests and answers.

There is a route for each verb of the run: POST /generate, /translate, /parse, /tag, /classify, /fill, /answer,
/caption or /transcribe, and /embed. A request has one or more texts and the options of the verb; the answer has the
objects that the verb prints with --json. For a run that reads pictures or sounds, a request contains files in base64,
not paths.

  clew serve runs/sentiment-lstm
  clew serve runs/shakespeare-gpt --port 9000 --batch 64 --wait 10
  clew serve runs/sentiment-lstm runs/tatoeba-transformer
  clew serve runs/sentiment-lstm --host 0.0.0.0 --allow-host models.example.org

A request to the first server: curl -H 'Content-Type: application/json' -d '{"text": "A fine film."}'
http://127.0.0.1:8765/classify A captioner takes {"picture": {"data": "BASE64", "name": "scene.png"}} at /caption.

With several runs, each has its own routes, /RUN/VERB. Waiting requests with equal options are answered by one call of
the model. Text is generated in a continuous batch, which requests join and leave whatever their options, and can be
streamed ({"stream": true}). Clients of OpenAI's API can use /v1/models, /v1/completions, /v1/chat/completions and
/v1/embeddings, with the folder's name as the model. GET / lists the routes and their options, /health is a health
check, and /metrics has counters for Prometheus, and statistics that compare the requests' texts with the training
data. No text is kept or logged.

By default the server accepts connections from this machine only. With --host it accepts others; requests must then
use a host name given by --allow-host, and send the key printed at the start: Authorization: Bearer KEY. The
environment variable CLEW_KEY sets the key.
"""

import argparse
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.options.precision import add_precision

if TYPE_CHECKING:
    from clew.serving.service import Service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run directories")
    add = parser.add_argument
    add("--port", type=int, metavar="N", help="the port (default: 8765, or the next free one)")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen on (default: 127.0.0.1, this machine only)",
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="accept requests to this host name too; may be repeated",
    )
    add("--batch", type=int, metavar="N", help="answer at most N texts in a batch (default: 64, and 128 on a CUDA GPU)")
    add(
        "--wait",
        type=float,
        default=5.0,
        metavar="MS",
        help="milliseconds to wait for more requests to batch (default: 5)",
    )
    add(
        "--queue",
        type=int,
        default=64,
        metavar="N",
        help="at most N waiting requests; others are told to retry later (default: 64)",
    )
    add(
        "--prefixes",
        type=int,
        default=64,
        metavar="MB",
        help="memory for cached prompt prefixes in megabytes; 0 turns the cache off (default: 64)",
    )
    add(
        "--chat-template",
        type=Path,
        metavar="FILE",
        help="how /v1/chat/completions turns messages into a prompt (JSON; see the guide)",
    )
    add(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds until a request times out (default: 60)",
    )
    add(
        "--longest",
        type=int,
        default=10_000,
        metavar="N",
        help="at most N characters in a text, or positions in a file (default: 10,000)",
    )
    add(
        "--no-training",
        action="store_true",
        help="do not read the training data for the statistics in /metrics",
    )
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")
    add_precision(parser)


GRACE = 3.0
"""Seconds that running requests have to finish after a signal."""
SHAPES = 32
"""Batch shapes for which oneDNN caches kernels. Its default of 1,024 takes tens of megabytes, which accumulate slowly
and look like a leak."""


def run(options: argparse.Namespace) -> int:
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(SHAPES))  # must be set before torch is imported
    from clew import __version__
    from clew.cli.inspect import log_to_standard_error
    from clew.cli.main import complain, exit_at_once
    from clew.cli.terminal.progress import say
    from clew.runs.folder.records import named_runs
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
            "batch": options.batch or (128 if any(next(run.task.parameters()).is_cuda for run in runs) else 64),
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
            on_refusal=service.count_refusal,
        )
        address = f"http://{f'[{options.host}]' if ':' in options.host else options.host}:{socket.getsockname()[1]}"

        def ready() -> None:
            say(f"serving {', '.join(str(run.folder) for run in runs)}: {address} (stop with Ctrl-C)")
            for path in service.routes:
                say(f"  POST {address}{path}")
            if service.openai.paths:
                say(f"  {address}/v1 for clients of OpenAI's API")
            if key is not None and not os.environ.get("CLEW_KEY"):
                say(f"  every request needs the header  Authorization: Bearer {key}")

        connections = Connections(most_connections(), on_close=service.count_closed)
        # Every full collection would visit all objects of torch and of the runs, and hold up all requests for 0.1 s.
        gc.collect()
        gc.freeze()
        number = serve(guard, socket, ready, grace=GRACE, give_up=lambda: worker.close(0), connections=connections)
    worker.close()
    if number is None:
        return 0
    exit_at_once(complain("interrupted", 128 + number))  # without waiting for torch to finish its work


def check_options(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    for name, least in {"batch": 1, "queue": 1, "longest": 1, "wait": 0.0, "prefixes": 0}.items():
        if getattr(options, name) is not None and not getattr(options, name) >= least:
            raise UserError(f"--{name} ({getattr(options, name)}) must be at least {least:g}")
    if not options.wait <= 1000:
        raise UserError(f"--wait ({options.wait:g}) is in milliseconds and must be at most 1000")
    if not 0 < options.timeout <= 3600:
        raise UserError(f"--timeout ({options.timeout:g}) is in seconds and must be above 0 and at most 3600")
    if options.host not in LOOPBACK and not options.allow_host:
        raise UserError(
            f"--host {options.host} accepts requests from other machines; add --allow-host NAME, the host name"
            " that they use"
        )


def is_open(options: argparse.Namespace) -> bool:
    """Whether other machines may send requests, directly or through a proxy."""
    return options.host not in LOOPBACK or bool(options.allow_host)


def new_key() -> str:
    import secrets

    return secrets.token_urlsafe(24)


def read_training(service: "Service") -> None:
    """Compute the statistics of the training data; say so if it is not available."""
    from clew.cli.terminal.progress import say
    from clew.core.errors import UserError
    from clew.serving.profiles import training_profile

    for name, run in service.runs.items():
        try:
            service.training_profiles[name] = training_profile(run)
        except (UserError, OSError) as error:
            say(f"{run.folder}: /metrics has no statistics of the training data, which cannot be read: {error}")


LOOPBACK = ("127.0.0.1", "localhost", "::1")
