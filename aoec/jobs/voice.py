"""Messages of a compile while it works: first lines at once, progress on a terminal, the table and the file's name at the end."""
from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from aoec.base.files.files import note
from aoec.base.stopwatch import Stopwatch
from aoec.base.text import clip_name, plural
from aoec.ir.graph.graph import Graph
from aoec.jobs.progress import Line, show_progress, unseen
from aoec.ops.narrowed import find_narrowed, summary

if TYPE_CHECKING:
    from aoec.bank.bank import Bank
    from aoec.jobs.results.result_file import Further
    from aoec.report.table import Report
    from aoec.target.machine import Machine


MOST_INPUTS = 12  # that are listed; a training graph has one for each parameter and state


class Voice:
    """Lines for people go to standard error; the result, as table or JSON, to standard output, unless that is `taken` already. `bar`:
    progress is drawn on a terminal. `watch`: how long each part of the work takes."""

    def __init__(self, as_json: bool, bar: bool = True, taken: bool = False) -> None:
        self.as_json, self.bar, self.taken = as_json, bar, taken
        self.watch = Stopwatch()

    def say(self, text: str) -> None:
        note(text)

    def reading(self, source: Path, machine: Machine, how: str) -> None:
        self.say(f"reading {source}")
        self.say(f"target {machine.name} ({how})")

    def read(self, graph: Graph, precision: str, notices: list[str], gear: str = "") -> None:
        if gear:
            self.say(f"gear {gear}")
        tensors = {t.name: t for t in graph.tensors}
        ops = Counter(n.op for n in graph.nodes)
        shapes = ", ".join(f"{clip_name(n)} {list(tensors[n].shape)}" for n in graph.inputs[:MOST_INPUTS])
        more = len(graph.inputs) - MOST_INPUTS
        shapes += f" and {more:,} more" if more > 0 else ""
        common = ", ".join(f"{o} {c}" for o, c in ops.most_common(6)) + ", ..." * (len(ops) > 6)
        self.say(f"{plural(len(graph.nodes), 'node')} of {plural(len(ops), 'operator')} ({common}); inputs {shapes or 'none'}")
        if precision != "fp32":
            self.say(f"run as {precision} (--precision): {summary(graph, find_narrowed(graph))}; sums are kept in fp32")
        for line in notices:
            self.say(line)

    def bank_at(self, path: Path) -> None:
        """Say where the bank is, before anything is opened."""
        self.say(f"bank {path} (--bank or TUNE_BANK_PATH)")

    def bank(self, bank: Bank) -> None:
        bank.tell = self.say
        if not bank.writable:
            self.say(f"bank {bank.path} is read only: nothing new is kept")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Line]:
        """Yield a function to tell people how far some work on so many parts is. With --no-progress it does nothing."""
        if not self.bar:
            yield unseen
            return
        with show_progress(what, total) as line:
            yield line

    def on_host(self, reasons: dict[str, str]) -> None:
        for group, reason in reasons.items():
            self.say(f"{group} runs on the host: {reason}")

    def in_parts(self, reasons: Mapping[str, str]) -> None:
        for group, reason in reasons.items():
            self.say(f"{group} is done in parts, of which each is a launch: {reason}")

    def wrong(self, faults: list[str], output: str) -> int:
        """Say that values are wrong and that nothing was written. Return 1."""
        for line in faults:
            self.say(f"wrong values: {line}")
        self.say(f"{output} is not written (--no-verify writes it all the same)")
        return 1

    def close(self, reports: Sequence[Report], output: str, every: bool = False, further: Sequence[Further] = ()) -> None:
        from aoec.report.table import print_table
        if self.as_json:
            json.dump({**facts(reports, output), **{f.name: f.facts for f in further}}, sys.stdout, indent=2)
            print()
        elif not self.taken:
            for report in reports:
                print_table(report, every=every)
            for f in further:
                print(f"\n{f.text}", end="")
        self.say(f"wrote {output}: runs on the model machine (aoec run {quote(output)} --random); CANN cannot load it")


def facts(reports: Sequence[Report], output: str) -> dict[str, Any]:
    """Return what a program reads of a compile: the report, or a list of them by gear, and the file's name."""
    from aoec.report.table import as_dict
    said = [as_dict(r) for r in reports]
    return {**(said[0] if len(said) == 1 else {"times": "modelled", "gears": said}), "output": output}


class Quiet(Voice):
    """Shows how work goes on, and says nothing of a model that is only tried."""

    def say(self, text: str) -> None:
        pass


class Silence(Voice):
    """Says nothing, and keeps what a program would read: `facts` of a compile, or the `faults` that kept it from being written."""

    def __init__(self) -> None:
        super().__init__(True, bar=False)
        self.facts: dict[str, Any] = {}
        self.faults: list[str] = []

    def say(self, text: str) -> None:
        pass

    def wrong(self, faults: list[str], output: str) -> int:
        self.faults = faults
        return 1

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Line]:
        yield unseen

    def close(self, reports: Sequence[Report], output: str, every: bool = False, further: Sequence[Further] = ()) -> None:
        self.facts = {**facts(reports, output), **{f.name: f.facts for f in further}}
