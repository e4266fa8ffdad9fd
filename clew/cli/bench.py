"""Benchmark clew and its peers on this machine: speed, memory, ratios.

Every workload alternates between clew and its peers in one process. A peer is
straightforward torch code for the same model, or another library if it is
installed. The table shows medians over rounds, the spread between quartiles,
the peak memory on CUDA, and clew's time divided by the peer's: below 1, clew
is faster. The floor is the least time that the matrix products and memory
reads need, at the rates measured on this machine.

  clew bench
  clew bench --list
  clew bench lstm-train 'gpt-decode-*' --plot ratios.svg
  clew bench --quick --check
  clew bench --quick lstm-decode-1 --json
  clew bench --record ratios.json
  clew bench gpt2-train --profile

--quick uses small sizes and one thread, and takes about a minute. --check
compares the ratios with those shipped with clew, or with FILE's, and exits
with 1 if one is more than 1.5 times as high, also when measured a second time.
Times are never compared.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "names",
        metavar="NAME",
        nargs="*",
        help="workloads, or quoted patterns (default: all that run on the device)",
    )
    add("--list", action="store_true", help="list the workloads, their devices and peers")
    add("--quick", action="store_true", help="use small sizes and few rounds")
    add("--check", metavar="FILE", nargs="?", const="", help="exit with 1 if a ratio is far above the recorded one")
    add("--record", metavar="FILE", help="write the ratios to FILE, for --check FILE")
    add("--plot", metavar="FILE", help="plot the ratios in FILE.svg, .html, .png or .pdf")
    add(
        "--profile",
        action="store_true",
        help="list where each side spends its time: GPU kernels or CPU operators",
    )
    add("--json", action="store_true", help="print one JSON object per workload")
    add(
        "--device",
        default="auto",
        choices=["auto", "cpu", "cuda"],
        help="the device to run on (default: a GPU if there is one)",
    )


def run(options: argparse.Namespace) -> int:
    from clew.bench.measuring import measure_workload
    from clew.bench.picture import draw_results
    from clew.bench.recorded import RECORDED, better, read_recorded, regressions, write_recorded

    if options.check and is_workload(options.check) and not Path(options.check).exists():
        options.names, options.check = [*options.names, options.check], ""  # `--check NAME`, without a FILE
    names = chosen(options.names)
    if options.list:
        return list_workloads(names, options.json)
    check_files(options)
    setting = setting_of(options)
    recorded = (
        None
        if options.check is None
        else read_recorded(Path(options.check) if options.check else RECORDED, setting.form)
    )
    machine = machine_of(setting)
    say(machine)
    results, found_regressions = [], []
    for workload in fitting(names, bool(options.names), setting.device.type):
        say(f"{workload.name}: {workload.about}")
        result = measure_workload(workload, setting, profile=options.profile)
        if recorded is not None and regressions(result, recorded):
            say(f"{workload.name} is above the recorded ratio; measuring again")
            result = better(result, measure_workload(workload, setting, profile=options.profile), recorded)
        results.append(result)
        show(result, machine, options.json)
        if recorded is not None:
            found_regressions += regressions(result, recorded)
            if workload.name not in recorded.ratios:
                say(f"{workload.name}: no ratio is recorded for {setting.form}")
    if options.record is not None:
        write_recorded(Path(options.record), results)
        say(f"wrote the ratios to {options.record}")
    if options.plot is not None:
        say(f"wrote the plot to {draw_results(results, machine).save(options.plot)}")
    for regression in found_regressions:
        print(f"clew: {regression}", file=sys.stderr)
    return 1 if found_regressions else 0


def is_workload(name: str) -> bool:
    from clew.bench.workloads import WORKLOADS

    return any(fnmatchcase(known, name) for known in WORKLOADS)


def chosen(names: list[str]) -> list[str]:
    """Return the workloads that match the names and patterns, in the order of the table."""
    from clew.bench.workloads import WORKLOADS
    from clew.core.errors import unknown

    for name in names:
        if not is_workload(name):
            raise unknown("workload", name, WORKLOADS)
    return [known for known in WORKLOADS if not names or any(fnmatchcase(known, name) for name in names)]


def fitting(names: list[str], by_name: bool, device: str) -> Iterator[Any]:
    """Yield the workloads that run on this device. Note on standard error those that were named but do not."""
    from clew.bench.workloads import WORKLOADS
    from clew.core.errors import UserError

    workloads = [WORKLOADS[name] for name in names]
    fits = [workload for workload in workloads if device in workload.devices]
    if not fits:
        raise UserError(
            f"{names[0]} runs only on {' and '.join(workloads[0].devices)}, not on {device}; `clew bench --list` lists"
            " the others"
        )
    for workload in workloads:
        if device in workload.devices:
            yield workload
        elif by_name:
            say(f"{workload.name} is skipped: it runs only on {' and '.join(workload.devices)}")


def setting_of(options: argparse.Namespace) -> Any:
    import torch

    from clew.bench.workload import Setting
    from clew.core.devices import choose_device

    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Setting(choose_device(device)[0], options.quick)


def check_files(options: argparse.Namespace) -> None:
    """Check --plot and --record before anything is timed."""
    from clew.core.errors import UserError
    from clew.drawing.figures import load_matplotlib
    from clew.drawing.views import FIGURES, WRITERS

    for option in ("plot", "record"):
        path = getattr(options, option)
        if path is not None and not Path(path).parent.is_dir():
            raise UserError(f"no such folder for --{option}: {Path(path).parent}; create it first")
    if options.plot is not None:
        ending = Path(options.plot).suffix.lower()
        if ending not in (*WRITERS, *FIGURES):
            raise UserError(f"--plot ({options.plot}) must end in {', '.join([*WRITERS, *FIGURES])}")
        if ending in FIGURES:
            load_matplotlib("use .svg, which needs no other package")


def machine_of(setting: Any) -> str:
    import torch

    from clew.bench.measuring import threads
    from clew.core.errors import counted

    name = (
        torch.cuda.get_device_name() if setting.device.type == "cuda" else f"CPU, {counted(threads(setting), 'thread')}"
    )
    return f"{name}, torch {torch.__version__}{', quick' if setting.quick else ''}"


def list_workloads(names: list[str], as_json: bool) -> int:
    from clew.bench.workloads import WORKLOADS
    from clew.cli.terminal.tables import show_table

    workloads = [WORKLOADS[name] for name in names]
    if as_json:
        for each in workloads:
            print(
                json.dumps({"workload": each.name, "about": each.about, "devices": each.devices, "peers": each.peers})
            )
    else:
        rows = [[each.name, each.about, ", ".join(each.devices), ", ".join(each.peers)] for each in workloads]
        show_table(("workload", "description", "devices", "peers"), rows)
    return 0


def show(result: Any, machine: str, as_json: bool) -> None:
    from clew.cli.terminal.tables import show_table, size
    from clew.core.errors import shortened

    if as_json:
        print(json.dumps({**result.record(), "machine": machine}), flush=True)
        return
    rows = []
    for name, side in result.sides.items():
        share, ratio = result.share(name), result.ratios.get(name)
        rows.append(
            [
                name,
                f"{result.tokens / side.timing.median:,.0f}",
                f"{1000 * side.timing.median:,.1f}",
                f"{side.timing.spread:.0%}",
                "" if side.memory is None else size(side.memory),
                "" if share is None else f"{share:.0%}",
                "" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
            ]
        )
    print(f"{result.workload}: {result.sizes}")
    show_table(("side", "tokens/s", "ms", "spread", "memory", "of floor", "clew / it"), rows, right=range(1, 6))
    for note in result.notes:
        print(note)
    for name, spent in result.profiles.items():
        print(f"\n{name} spends its time on")
        rows = [[shortened(each.kernel, 100), f"{each.runs:,.0f}", f"{1000 * each.seconds:,.2f}"] for each in spent]
        show_table(("kernel", "runs", "ms"), rows, right=range(1, 3))
    print(flush=True)
