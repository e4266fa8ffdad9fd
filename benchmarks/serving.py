"""`python -m benchmarks.serving RUN [--clients 64] [--seconds 120]`: send requests to `clew serve` from many clients
over the loopback interface. `benchmarks.serving_attacked` does the same under attack.

Each client waits for an answer before it sends its next request. 1 % of the requests are cancelled within 20 ms, and
1 % exceed the server's size limit; the others contain one text, or sometimes four. With --long some requests have
additional options, such as a larger `max_new`. The server is a process of its own. Printed are answers per second,
latencies, the status codes of all answers, texts per call of the model, the server's processor time, and its memory
over time. The exit status is 1 if there was an unexpected answer, or if memory grew by more than a tenth after the
first fifth of the time, not counting the server's cache of prompt prefixes, which has a limit.

  python -m benchmarks.serving RUN --options '{"max_new": 20}' --long '{"max_new": 400}' --long-share 5
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

WORDS = [
    "the",
    "a",
    "small",
    "red",
    "ball",
    "of",
    "thread",
    "was",
    "tied",
    "to",
    "her",
    "door",
    "and",
    "she",
    "went",
    "in",
]
OVERSIZED = b'{"text": "' + b"a" * 1_200_000 + b'"}'
EXPECTED = {"short": {200}, "long": {200}, "cancelled": {0, 200}, "oversized": {413}}


class Client:
    """A client that keeps its connection open if the server does."""

    def __init__(self, host: str, port: int, path: str, options: argparse.Namespace, seed: int):
        self.host, self.port, self.path = host, port, path
        self.options, self.long = json.loads(options.options), json.loads(options.long)
        self.shares = {
            "short": 98 - options.long_share * bool(self.long),
            "long": options.long_share * bool(self.long),
            "cancelled": 1,
            "oversized": 1,
        }
        self.random = random.Random(seed)
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.latencies: dict[str, list[float]] = {"short": [], "long": []}
        self.texts_answered = 0

    async def work(self, until: float) -> None:
        while time.monotonic() < until:
            kind = self.random.choices([*self.shares], [*self.shares.values()])[0]
            began = time.monotonic()
            try:
                status = await asyncio.wait_for(self.request(kind), 90)
            except (OSError, asyncio.IncompleteReadError):
                status = -1
                self.close()
            self.statuses[kind, status] += 1
            if kind in self.latencies and status == 200:
                self.latencies[kind].append(time.monotonic() - began)
        self.close()

    async def request(self, kind: str) -> int:
        options = {**self.options, **(self.long if kind == "long" else {})}
        body = OVERSIZED if kind == "oversized" else json.dumps({**self.texts(), **options}).encode()
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self.streams
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\nContent-Length:"
            f" {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        if kind == "cancelled":
            await asyncio.sleep(self.random.uniform(0, 0.02))
            self.close()
            return 0
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        answer = await reader.readexactly(length)
        status = int(lines[0].split()[1])
        if status == 200:
            self.texts_answered += len(json.loads(answer)["answers"])
        if "connection: close" in lines:
            self.close()
        return status

    def texts(self) -> dict:
        texts = [
            " ".join(self.random.choices(WORDS, k=self.random.randint(1, 20)))
            for _ in range(self.random.choice([1, 1, 1, 4]))
        ]
        return {"text": texts[0]} if len(texts) == 1 else {"texts": texts}

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


def resident_megabytes(process: int) -> float:
    command = ["ps", "-o", "rss=", "-p", str(process)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def processor_seconds(process: int, thread: int | None = None) -> float:
    """Return the CPU time of one thread, or of all threads, of a process. It depends little on other processes."""
    folder = Path(f"/proc/{process}") if thread is None else Path(f"/proc/{process}/task/{thread}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """Megabytes of a server, and how many of them are cached prompt prefixes."""

    resident: float
    cached: float

    @property
    def other(self) -> float:
        return self.resident - self.cached


async def memory_of(process: int, port: int) -> Memory:
    metrics = await read_metrics(port)
    return Memory(resident_megabytes(process), metrics["clew_prefix_bytes"] / 2**20)


async def watch_memory(process: int, port: int, until: float, seconds: float) -> list[Memory]:
    sizes = [await memory_of(process, port)]
    while time.monotonic() < until:
        await asyncio.sleep(max(seconds / 20, 0.1))
        sizes.append(await memory_of(process, port))
    return sizes


async def measure(process: int, port: int, path: str, options: argparse.Namespace) -> tuple[list[Client], list[Memory]]:
    until = time.monotonic() + options.seconds
    clients = [Client("127.0.0.1", port, path, options, seed) for seed in range(options.clients)]
    sizes, *_ = await asyncio.gather(
        watch_memory(process, port, until, options.seconds), *(client.work(until) for client in clients)
    )
    return clients, sizes


async def read_metrics(port: int) -> dict[str, float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode().partition("\r\n\r\n")[2]
    writer.close()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    }


def report(clients: list[Client], sizes: list[Memory], metrics: dict[str, float], seconds: float) -> bool:
    """Print the results, and return whether all answers were expected and memory stayed level."""
    statuses = sum((client.statuses for client in clients), Counter())
    answers = {
        kind: sorted(latency for client in clients for latency in client.latencies[kind]) for kind in ("short", "long")
    }
    count, texts = sum(map(len, answers.values())), sum(client.texts_answered for client in clients)
    rates = f"{count / seconds:.1f} answers/s, {texts / seconds:.1f} texts/s"
    print(f"{len(clients)} clients, {seconds:g} s: {statuses.total():,} requests, {rates}")
    for kind, latencies in answers.items():
        if len(latencies) > 1:
            cuts = [latencies[0], *statistics.quantiles(latencies, n=100)]
            quantiles = ", ".join(f"{share} % {1e3 * cuts[share]:.0f} ms" for share in (50, 95, 99))
            print(f"latency of {len(latencies):,} {kind} requests: {quantiles}, longest {latencies[-1]:.2f} s")
    print("answers: " + ", ".join(f"{count:,} x {kind} {status}" for (kind, status), count in sorted(statuses.items())))
    texts, calls = (
        sum(value for name, value in metrics.items() if name.startswith(f"clew_batch_texts_{part}"))
        for part in ("sum", "count")
    )
    if calls:
        print(f"texts per call: {texts / calls:.1f} ({calls:,.0f} calls)")
    early = max(size.other for size in sizes[: max(len(sizes) // 5, 1) + 1])
    print("memory over time, in MB: " + " ".join(f"{size.resident:.0f}" for size in sizes))
    print("of it cached prefixes:   " + " ".join(f"{size.cached:.0f}" for size in sizes))
    print(
        f"memory without these: {sizes[0].other:.0f} MB at the start, {early:.0f} after a fifth,"
        f" {sizes[-1].other:.0f} at the end, {max(size.other for size in sizes):.0f} maximum"
    )
    unexpected = {key: count for key, count in statuses.items() if key[1] not in EXPECTED[key[0]]}
    return not unexpected and sizes[-1].other <= 1.1 * early


@contextmanager
def serving(run: str, device: str, limit: str = "") -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """Run a server in its own process, and yield the process, its port and the path of the run's main endpoint.

    `limit` is passed to the shell's `ulimit`.
    """
    command = [sys.executable, "-m", "clew", "serve", run, "--port", "0", "--device", device]
    if limit:
        command = ["sh", "-c", f'ulimit {limit} && exec "$@"', "sh", *command]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        try:
            lines = iter(server.stderr)  # type: ignore[arg-type]
            first = next((line for line in lines if line.startswith("serving ")), None)
            if first is None:
                sys.exit("the server did not start")
            address = next(lines).split()[1]
            # Read on: a full pipe would block the server.
            threading.Thread(target=lambda: deque(lines, maxlen=0), daemon=True).start()
            yield server, int(address.split(":")[2].partition("/")[0]), "/" + address.split("/")[-1]
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--device", default="cpu", help="where the server runs its model")
    parser.add_argument("--options", default="{}", help="options of every request, as JSON, e.g. '{\"max_new\": 20}'")
    parser.add_argument("--long", default="{}", help="additional options of some requests, as JSON")
    parser.add_argument("--long-share", type=float, default=5.0, help="percentage of requests with --long")
    options = parser.parse_args()
    with serving(options.run, options.device) as (server, port, path):
        before, loop_before = processor_seconds(server.pid), processor_seconds(server.pid, server.pid)
        clients, sizes = asyncio.run(measure(server.pid, port, path, options))
        total = processor_seconds(server.pid) - before
        in_loop = processor_seconds(server.pid, server.pid) - loop_before  # the first thread runs the event loop
        count = max(sum(len(latencies) for client in clients for latencies in client.latencies.values()), 1)
        print(
            f"the server's processor time: {total:.0f} s, {1e3 * total / count:.2f} ms per answer, of which"
            f" {1e3 * in_loop / count:.2f} ms in the event loop (HTTP and JSON)"
        )
        passed = report(clients, sizes, asyncio.run(read_metrics(port)), options.seconds)
    print(f"exit status after SIGTERM: {server.returncode}")
    sys.exit(0 if passed and server.returncode == 143 else 1)
