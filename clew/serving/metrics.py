"""The metrics of a server, in the text format of Prometheus. Knows no run and no request.

A counter only grows; a histogram counts values up to each bound; a gauge is measured when it is read. Texts are never
stored.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Family(NamedTuple):
    kind: str
    about: str
    bounds: tuple[float, ...] = ()


class Histogram:
    def __init__(self, bounds: tuple[float, ...]):
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def samples(self, name: str, labels: Labels) -> Iterable[tuple[str, Labels, float]]:
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield f"{name}_bucket", (*labels, ("le", "+Inf" if bound == float("inf") else f"{bound:g}")), total
        yield f"{name}_sum", labels, self.sum
        yield f"{name}_count", labels, total


class Metrics:
    """Values by family and labels; thread-safe."""

    def __init__(self, families: Mapping[str, Family]):
        self.families = families
        self.values: dict[str, dict[Labels, float]] = {name: {} for name in families}
        self.histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in families}
        self.lock = threading.Lock()

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        key = tuple(labels.items())
        with self.lock:
            self.values[name][key] = self.values[name].get(key, 0) + by

    def put(self, name: str, labels: Mapping[str, str], value: float) -> None:
        with self.lock:
            self.values[name][tuple(labels.items())] = value

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        key = tuple(labels.items())
        with self.lock:
            self.histograms[name].setdefault(key, Histogram(self.families[name].bounds)).add(value)

    def text(self) -> str:
        lines: list[str] = []
        with self.lock:
            for name, family in self.families.items():
                samples = [(name, labels, value) for labels, value in self.values[name].items()]
                for labels, histogram in self.histograms[name].items():
                    samples += histogram.samples(name, labels)
                if samples:
                    lines += [f"# HELP {name} {family.about}", f"# TYPE {name} {family.kind}"]
                    lines += [f"{name}{written(labels)} {value:.10g}" for name, labels, value in samples]
        return "\n".join(lines) + "\n"


def written(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}"


def escaped(value: str) -> str:
    """A label's value, escaped as the format requires; lone surrogates become escape sequences."""
    whole = value.encode("utf-8", "backslashreplace").decode()
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


FAMILIES = {
    "clew_requests_total": Family("counter", "requests answered, by status"),
    "clew_errors_total": Family("counter", "requests refused or failed, by status; 499: the client disconnected"),
    "clew_refused_total": Family(
        "counter", "requests refused by the guard, by status: too long, from another host, not JSON"
    ),
    "clew_cut_total": Family(
        "counter", "connections closed: no head or next request in time, an unread answer, too many connections"
    ),
    "clew_request_seconds": Family("histogram", "seconds from a request to its answer", SECONDS),
    "clew_queue_length": Family("gauge", "requests waiting"),
    "clew_streams": Family("gauge", "texts being streamed"),
    "clew_prefix_bytes": Family("gauge", "memory of the cached prompt prefixes"),
    "clew_batch_texts": Family(
        "histogram", "texts answered together: by one call of the model, or in a running batch", SIZES
    ),
    "clew_texts_total": Family("counter", "texts read"),
    "clew_tokens_total": Family("counter", "tokens of the texts read"),
    "clew_unknown_tokens_total": Family("counter", "unknown tokens of the texts read"),
    "clew_labels_total": Family("counter", "labels predicted"),
    "clew_unknown_share": Family("gauge", "share of unknown tokens, in requests and in the training data"),
    "clew_text_tokens_mean": Family("gauge", "mean length of a text in tokens, in requests and in the training data"),
    "clew_label_share": Family("gauge", "share of a label, in predictions and in the training data"),
    "clew_confidence_mean": Family("gauge", "mean probability of predictions, on requests and on training texts"),
}
