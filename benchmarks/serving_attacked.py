"""`python -m benchmarks.serving_attacked RUN [slow] [long]`: what honest clients of `clew serve` feel of others.

slow    1,200 clients that send half a head, a byte a second, and come again when they are cut, beside 64 honest ones.
        They are a process of their own. The server begins with 1,024 files, as most systems have it
        (--limit "-n 1024": and never more). Printed are the honest clients' latencies without and with the slow ones;
        it ends with 1 where the median is more than doubled, or an honest request is lost.
long    a request of max_new 5 asked again and again, alone, and while others run: 8 samples of 4,096 tokens; six
        searches with 64 beams. It ends with 1 where the median beside them is above a fifth of a second. RUN is a
        language model's.

RUN reads any word: the refusal of a word that it does not know counts as a request that is lost.
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

from benchmarks.serving import WORDS, metrics, serving

HALF = b"POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
LONG = {
    "8 samples of 4,096 tokens": [{"text": "the", "max_new": 4096, "samples": 8}],
    "six searches with 64 beams": [
        {"text": "the", "max_new": 300, "beams": 64, "length_penalty": 1 + number / 10} for number in range(6)
    ],
}


class Honest:
    """Asks one thing after the other, on a connection that it keeps while the server does. A request that is lost is
    not asked again."""

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
                status = await asyncio.wait_for(self.ask({"text": WORDS[number % len(WORDS)], **self.options}), 60)
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

    async def ask(self, fields: dict[str, Any]) -> int:
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
    async def all_of_them() -> None:
        await asyncio.gather(*(slow_client(port, pause) for _ in range(count)))

    asyncio.run(all_of_them())


async def honest_beside(
    port: int,
    path: str,
    given: argparse.Namespace,
    attackers: list[Callable[[], Coroutine[Any, Any, None]]],
    settle: float,
) -> list[Honest]:
    """Honest clients for some seconds, attackers beside them, who began before."""
    tasks = [asyncio.ensure_future(attack()) for attack in attackers]
    await asyncio.sleep(settle)
    honest = [Honest(port, path, json.loads(given.options)) for _ in range(given.clients)]
    until = time.monotonic() + given.seconds
    await asyncio.gather(*(client.work(until) for client in honest))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return honest


def told(name: str, clients: list[Honest]) -> float:
    """Prints what clients saw, and gives the median of their latencies."""
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


def slow(given: argparse.Namespace) -> bool:
    with serving(given.run, given.device, given.limit) as (_, port, path):
        alone = told(f"{given.clients} honest clients", asyncio.run(honest_beside(port, path, given, [], 0.0)))
        attack = get_context("spawn").Process(target=slow_clients, args=(port, given.slow, given.pause), daemon=True)
        attack.start()
        clients = asyncio.run(honest_beside(port, path, given, [], 5.0))
        attack.terminate()
        attack.join()
        beside = told(f"{given.clients} honest clients, {given.slow:,} slow ones beside them", clients)
        counts = asyncio.run(metrics(port))
    cut = ", ".join(f"{name}: {value:.0f}" for name, value in counts.items() if name.startswith("clew_cut_total"))
    print(f"connections cut: {cut}; the median is {beside / alone:.2f} times what it was")
    return beside <= 2 * alone and not any(client.lost for client in clients)


def long(given: argparse.Namespace) -> bool:
    is_well = True
    given.clients, given.options = 1, '{"max_new": 5}'
    with serving(given.run, given.device) as (_, port, path):
        told("a short request alone", asyncio.run(honest_beside(port, path, given, [], 0.0)))
        for name, bodies in LONG.items():

            async def again(body: dict[str, Any]) -> None:
                client = Honest(port, path, {})
                while True:
                    await client.ask(body)

            attackers = [lambda body=body: again(body) for body in bodies]  # type: ignore[misc]
            beside = told(
                f"a short request beside {name}", asyncio.run(honest_beside(port, path, given, attackers, 0.5))
            )
            is_well = is_well and beside <= 0.2
    return is_well


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_attacked", description=__doc__)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("attacks", nargs="*", default=["slow", "long"], choices=["slow", "long"])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--slow", type=int, default=1200)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds after which a slow client comes again")
    parser.add_argument("--limit", default="-Sn 1024", help="of the server, as ulimit takes it")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--device", default="cpu", help="where the server runs its model")
    parser.add_argument("--options", default='{"max_new": 5}', help="of every honest request, as JSON")
    given = parser.parse_args()
    found = [{"slow": slow, "long": long}[attack](given) for attack in given.attacks]
    sys.exit(0 if all(found) else 1)
