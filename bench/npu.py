"""Networks of the zoo whole on a device: by default the stand-in, with its compiler and its library of ACL.

    python bench/npu.py --network resnet50 bert-base ... [--target Ascend910B3 ...] [--cann 8.1|8.5|9.1|installed] [--groups]

It compiles networks in fp16 with an empty bank, batch 1 and default schedules. It runs each as `aoec run --on npu` does, and prints a row
for each. A row has the number of groups that are launched, of groups on the host, and of distinct kernels. It has the seconds to build the
kernels, and to run all once. It has the largest difference from onnxruntime, relative to a result's largest number. --groups compares each
launch with the model machine, and prints the largest difference of one. A line below the row says how many groups the host runs for each
reason. The exit code is 1 where a result is further from onnxruntime than the zoo allows, or a group differs. Seconds of the stand-in say
nothing about a device.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.artifact.artifact import load
from aoec.frontend import zoo
from aoec.jobs.npu.against import GroupWatch
from aoec.jobs.npu.device_runner import DeviceRunner
from aoec.jobs.npu.open_board import open_board
from aoec.standin.toolkit import make_toolkit
from aoec.target.machine import load as load_machine
from bench.networks import NETWORKS, text, vision
from bench.networks.net import Network
from bench.networks.reference import apart, results
from bench.networks.rounded import rounded
from bench.networks.tolerances import tolerance

HEAD = ("| network | target | CANN | launches | on the host | kernels | build, s | run, s | from the model machine | from onnxruntime | "
        "allowed |", "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
PARTS: dict[str, Callable[[int, int], Network]] = {  # of networks, for a quick look
    "resnet50-64": lambda batch, seed: vision.of(zoo.resnet50(batch, seed, size=64, name="resnet50-64"), seed),
    "bert-layer": lambda batch, seed: text.bert_base(batch, seed, layers=1)}
KNOWN = {**NETWORKS, **PARTS}
INSTALLED = "installed"
RELEASES = {"8.1": 81, "8.5": 85, "9.1": 91}
LIMIT_S = 60.0  # of a kernel on the stand-in, on a computer that does other things too


@dataclass(frozen=True)
class Row:
    """What is said of a network. `of_groups`: the largest difference of a launch from the model machine; None where none was held against
    it. `wrong`: the group that differs from the model machine, or too far results; "" where all is well. `why`: of groups on the host."""

    network: str
    target: str
    cann: str
    launches: int
    host: int
    kernels: int
    build_s: float
    run_s: float
    of_groups: float | None
    error: float
    allowed: float
    wrong: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        groups = "" if self.of_groups is None else f"{self.of_groups:.1e}"
        row = (f"| {self.network} | {self.target} | {self.cann} | {self.launches} | {self.host} | {self.kernels} | {self.build_s:.1f} | "
               f"{self.run_s:.1f} | {groups} | {self.error:.1e} | {self.allowed:.1e} |" + f" wrong: {self.wrong}" * bool(self.wrong))
        return "\n".join([row, *[f"    {count} {why or 'host groups of the model'}" for why, count in Counter(self.why).most_common()]])


@contextmanager
def toolkit(cann: str, target: str) -> Iterator[None]:
    """Provide the environment of a stand-in of that release and target. Leave the environment as it is for "installed"."""
    if cann == INSTALLED:
        yield
        return
    with TemporaryDirectory(prefix="aoec-npu-") as folder:
        root = make_toolkit(Path(folder) / "cann", RELEASES[cann])
        with mock.patch.dict(os.environ, ASCEND_HOME_PATH=str(root), AOEC_STANDIN_SOC=target, AOEC_LEASE_DIR=folder):
            os.environ.pop("ASCEND_RT_VISIBLE_DEVICES", None)
            yield


def measure(name: str, target: str, cann: str, groups: bool = False, device: int = 0) -> Row:
    """Return the row of a network."""
    network, machine = KNOWN[name](1, 0), load_machine(target)
    with TemporaryDirectory() as folder:
        made = Path(folder) / "network.aoec"
        aoec.compile(network.model, made, target=target, precision="fp16", tune=False, bank=Path(folder) / "bank", base="none",
                     verify=False)
        artifact = load(made)
        with toolkit(cann, target), open_board(device, machine) as opened:
            began = time.monotonic()
            runner = DeviceRunner(artifact, opened.board, machine, opened.release, LIMIT_S).ready()
            ready = time.monotonic()
            got = runner.run(network.feeds)
            done = time.monotonic()
            watch = GroupWatch(runner.tensors)
            if groups:
                runner.watch = watch
                runner.run(network.feeds)
    names = list(got)
    wanted = results(network.model, network.feeds, names)
    rounding = max(apart(results(rounded(network.model), network.feeds, names, optimised=False), wanted).values())
    error, allowed = max(apart(got, wanted).values()), tolerance("fp16", rounding).relative
    first = watch.first and f"{watch.first[0].group} ({watch.first[0].label}) differs by {watch.first[1].relative:.1e}"
    wrong = first or "" if error <= allowed else first or "the results"
    calls = runner.plan.calls
    found = [d.relative for d in (watch.first and watch.first[1], watch.worst) if d]
    return Row(name, target, cann, len(calls), len(runner.plan.on_host), len({c.written.binary for c in calls}), ready - began,
               done - ready, max(found, default=0.0) if groups else None, error, allowed, wrong,
               tuple(s.why for s in runner.plan.on_host))


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, or 1 where a row is wrong, after the rows are printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", choices=sorted(KNOWN), default=["resnet50", "bert-base"], metavar="NAME")
    parser.add_argument("--target", nargs="+", default=["Ascend910B3"], metavar="NAME")
    parser.add_argument("--cann", default="9.1", choices=(*RELEASES, INSTALLED))
    parser.add_argument("--groups", action="store_true", help="hold each launch against the model machine")
    parser.add_argument("--device", type=int, default=0, help="the number of an installed device")
    args = parser.parse_args(argv)
    print("\n".join(HEAD), flush=True)
    wrong = False
    for network in args.network:
        for target in args.target:
            row = measure(network, target, args.cann, args.groups, args.device)
            print(row, flush=True)
            wrong |= bool(row.wrong)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
