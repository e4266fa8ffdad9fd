"""`python -m benchmarks.serving_attacked RUN [slow] [long]`: the effect of other clients on honest clients of
`clew serve`.

slow    1,200 clients that send half a header, one byte per second, and reconnect when they are cut off, beside 64
        honest ones. The slow clients run in their own process. The server starts with a soft limit of 1,024 open
        files, the default of most systems (--limit "-n 1024" makes the limit hard). Printed are the latencies of the
        honest clients without and with the slow ones. The exit status is 1 if the median more than doubles, or if an
        honest request is lost.
long    a request with max_new 5, repeated on its own and beside expensive requests: 8 samples of 4,096 tokens; six
        searches with 64 beams. The exit status is 1 if the median beside them exceeds 0.2 seconds. RUN must be a
        language model.

RUN must accept any word: a request that is refused because of an unknown word counts as lost.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

from benchmarks.serving import WORDS, read_metrics, serving

HALF = b"POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
LONG = {
    "8 samples of 4,096 tokens": [{"text": "the", "max_new": 4096, "samples": 8}],
    "six searches with 64 beams": [
        {"text": "the", "max_new": 300, "beams": 64, "length_penalty": 1 + number / 10} for number in range(6)
    ],
}


class HonestClient:
    """A client that sends one request after the other, on one connection if the server keeps it open.

    It does not repeat lost requests.
    """

    def __init__(self, port: int, path: str, options: dict[str, Any]):
        self.port, self.path, self.options = port, path, options
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.latencies: list[float] = []
        self.lost: Counter[str] = Counter()

    async def work(self, until: float) -> None:
        number = 0
        while time.monotonic() < until:
            began, number = time.monotonic(), number + 1
            try:
                status = await asyncio.wait_for(self.request({"text": WORDS[number % len(WORDS)], **self.options}), 60)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.lost[type(error).__name__] += 1
                self.close()
                await asyncio.sleep(0.05)
                continue
            if status == 200:
                self.latencies.append(time.monotonic() - began)
            else:
                self.lost[str(status)] += 1
        self.close()

    async def request(self, fields: dict[str, Any]) -> int:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        body = json.dumps(fields).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length:"
            f" {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        await reader.readexactly(
            next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        )
        return int(lines[0].split()[1])

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


async def slow_client(port: int, pause: float) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF)
            is_open = True
            while is_open:
                writer.write(b"x")
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1024), 1.0)
                    is_open = False
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(pause)


def slow_clients(port: int, count: int, pause: float) -> None:
    async def run_all() -> None:
        await asyncio.gather(*(slow_client(port, pause) for _ in range(count)))

    asyncio.run(run_all())


async def run_honest_clients(
    port: int,
    path: str,
    options: argparse.Namespace,
    attackers: list[Callable[[], Coroutine[Any, Any, None]]],
    settle: float,
) -> list[HonestClient]:
    """Run honest clients beside attackers, which start `settle` seconds earlier."""
    tasks = [asyncio.ensure_future(attack()) for attack in attackers]
    await asyncio.sleep(settle)
    honest = [HonestClient(port, path, json.loads(options.options)) for _ in range(options.clients)]
    until = time.monotonic() + options.seconds
    await asyncio.gather(*(client.work(until) for client in honest))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return honest


def report(name: str, clients: list[HonestClient]) -> float:
    """Print the latencies of the clients and their lost requests, and return the median latency."""
    latencies = sorted(latency for client in clients for latency in client.latencies)
    lost = sum((client.lost for client in clients), Counter())
    if len(latencies) < 2:
        print(f"{name}: {len(latencies)} answers, lost {dict(lost)}")
        return float("inf")
    cuts = statistics.quantiles(latencies, n=100)
    times = ", ".join(f"{share} % {1e3 * cuts[share - 1]:.0f} ms" for share in (50, 95, 99))
    print(
        f"{name}: {len(latencies):,} answers, {times}, longest {latencies[-1]:.2f} s, lost {dict(lost) or 'none'}",
        flush=True,
    )
    return cuts[49]


def measure_slow(options: argparse.Namespace) -> bool:
    with serving(options.run, options.device, options.limit) as (_, port, path):
        alone = report(
            f"{options.clients} honest clients", asyncio.run(run_honest_clients(port, path, options, [], 0.0))
        )
        attack = get_context("spawn").Process(
            target=slow_clients, args=(port, options.slow, options.pause), daemon=True
        )
        attack.start()
        clients = asyncio.run(run_honest_clients(port, path, options, [], 5.0))
        attack.terminate()
        attack.join()
        beside = report(f"{options.clients} honest clients, {options.slow:,} slow ones beside them", clients)
        counts = asyncio.run(read_metrics(port))
    cut = ", ".join(f"{name}: {value:.0f}" for name, value in counts.items() if name.startswith("clew_cut_total"))
    print(f"connections cut: {cut}; the median is {beside / alone:.2f} times the median without slow clients")
    return beside <= 2 * alone and not any(client.lost for client in clients)


def measure_long(options: argparse.Namespace) -> bool:
    passed = True
    options.clients, options.options = 1, '{"max_new": 5}'
    with serving(options.run, options.device) as (_, port, path):
        report("a short request alone", asyncio.run(run_honest_clients(port, path, options, [], 0.0)))
        for name, bodies in LONG.items():

            async def repeat(body: dict[str, Any]) -> None:
                client = HonestClient(port, path, {})
                while True:
                    await client.request(body)

            attackers = [lambda body=body: repeat(body) for body in bodies]  # type: ignore[misc]
            beside = report(
                f"a short request beside {name}", asyncio.run(run_honest_clients(port, path, options, attackers, 0.5))
            )
            passed = passed and beside <= 0.2
    return passed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_attacked", description=__doc__)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("attacks", nargs="*", default=["slow", "long"], choices=["slow", "long"])
    parser.add_argument("--clients", type=int, default=64, help="number of honest clients")
    parser.add_argument("--slow", type=int, default=1200, help="number of slow clients")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds before a slow client reconnects")
    parser.add_argument("--limit", default="-Sn 1024", help="limit of the server's open files, as arguments of ulimit")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--device", default="cpu", help="where the server runs its model")
    parser.add_argument("--options", default='{"max_new": 5}', help="options of every honest request, as JSON")
    options = parser.parse_args()
    passed = [{"slow": measure_slow, "long": measure_long}[attack](options) for attack in options.attacks]
    sys.exit(0 if all(passed) else 1)
