"""Encode shards in several processes. Each process is a separate program: it reads a tokenizer and then shards as JSON
lines, and writes its progress and then the entry of each shard as JSON lines. It ends when its input closes, and so
with the program that started it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from clew.core.errors import UserError
from clew.data.caching.encoding import Entry, encode_shard
from clew.data.files.text_files import Piece
from clew.text.tokenizer import Tokenizer

TICK = 0.1
"""Seconds between two checks of the progress, and of whether to stop."""


class Job(NamedTuple):
    """A shard to be written, or the entry of a shard that exists already."""

    path: Path
    pieces: Sequence[Piece]
    begins: bool
    entry: Entry | None = None


def encode_shards(
    jobs: Iterable[Job], tokenizer: Tokenizer, workers: int, report: Callable[[int], None]
) -> Iterator[Entry]:
    """Yield the entry of every shard, in order; the entries do not depend on the number of processes. `report` is
    called here, often, with the number of characters done since the last call. It may raise to stop everything."""
    if workers == 1:
        for job in jobs:
            yield encode_here(job, tokenizer, report)
        return
    progress: SimpleQueue[int] = SimpleQueue()
    children: list[subprocess.Popen[str]] = []
    free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    threads = ThreadPoolExecutor(workers)
    waiting: list[Future[Entry]] = []
    folder = Path()

    def report_all() -> None:
        report(sum(progress.get() for _ in range(progress.qsize())))

    def first() -> Entry:
        while not wait_for(waiting[:1], timeout=TICK).done:
            report_all()
        report_all()  # may raise first: a process that was stopped by a signal is not an error
        return waiting.pop(0).result()

    try:
        for job in jobs:
            folder = job.path.parent
            if job.entry is None and len(children) < workers:
                children.append(start_process())
                send_tokenizer(children[-1], tokenizer)
                free.put(children[-1])
            waiting.append(threads.submit(encode_there, job, free, progress.put))
            if len(waiting) > workers:
                yield first()
        while waiting:
            yield first()
    finally:
        for child in children:
            child.kill()
        threads.shutdown(cancel_futures=True)
        for child in children:
            child.communicate()
            for path in folder.glob(f"*.partial-{child.pid}"):
                path.unlink(missing_ok=True)


def encode_here(job: Job, tokenizer: Tokenizer, report: Callable[[int], None]) -> Entry:
    if job.entry is not None:
        report(job.entry["num_characters"])
        return job.entry
    return encode_shard(job.path, job.pieces, job.begins, tokenizer, report)


def encode_there(job: Job, free: "SimpleQueue[subprocess.Popen[str]]", report: Callable[[int], None]) -> Entry:
    """Let a free process write a shard."""
    if job.entry is not None:
        report(job.entry["num_characters"])
        return job.entry
    child = free.get()
    assert child.stdin is not None and child.stdout is not None
    try:
        send(child.stdin, {"path": str(job.path), "pieces": job.pieces, "begins": job.begins})
        for line in child.stdout:
            answer = json.loads(line)
            if "error" in answer:
                raise OSError(answer["number"], answer["error"])
            if "file" in answer:
                return answer
            report(answer["done"])
    except (BrokenPipeError, ValueError):
        pass  # reported below
    finally:
        free.put(child)
    raise UserError(
        "a process that encodes the text died (killed, or out of memory); try again, with text.workers=1 if it happens"
        " again"
    )


def start_process() -> "subprocess.Popen[str]":
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "clew.data.encoding_processes"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    # Ctrl-C reaches every process of the terminal's session; in its own session, a process is ended only by its parent
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)


def send_tokenizer(child: "subprocess.Popen[str]", tokenizer: Tokenizer) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # its first shard reports a process that has died
        send(child.stdin, tokenizer.to_json())


def send(stream: IO[str], content: object) -> None:
    stream.write(json.dumps(content, ensure_ascii=False) + "\n")
    stream.flush()


def encode_from_input() -> None:
    """Encode the shards named on standard input: the program of each process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems without sessions
    tokenizer = Tokenizer.from_json(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        job = json.loads(line)
        pieces = [Piece(*piece) for piece in job["pieces"]]
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done += count
            if done >= 2**16:
                send(sys.stdout, {"done": done})
                done = 0

        try:
            entry = encode_shard(Path(job["path"]), pieces, job["begins"], tokenizer, report)
        except OSError as error:
            send(sys.stdout, {"error": error.strerror or str(error), "number": error.errno or 0})
            continue
        send(sys.stdout, {"done": done})
        send(sys.stdout, entry)


if __name__ == "__main__":
    encode_from_input()
