"""A compiled model that runs on a device: kernels in order, host groups between them on this computer."""
from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec.artifact.compiled import Artifact, Compiled
from aoec.base.npu_errors import KernelHang, NpuError, WaitTimeout
from aoec.ir.graph.bodies import Place
from aoec.jobs.npu.board import Board
from aoec.jobs.npu.memory_plan import Call, Calls, HostStep, Part, Plan, Spot, plan_model
from aoec.jobs.npu.sources import Sources, write_sources
from aoec.jobs.run.execute import Runner, Values
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import stored_shape
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.acl.device import Launch

SLOWER = 20  # a kernel may take so many times what is modelled of it,
LEAST_LIMIT_US = 1_000_000  # and this in any case
Arrays = Mapping[str, np.ndarray]
Watch = Callable[[Compiled, Arrays, Arrays], None]  # a group that was launched, what it read and what it made, as stored


@dataclass
class Spent:
    """Seconds of one run by this computer's clock. They are split into launches (from the first of a row to the end of the wait for it),
    copies and host groups."""

    launches_s: float = 0.0
    copies_s: float = 0.0
    host_s: float = 0.0
    rows: int = 0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Add the time inside the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - began)


class DeviceRunner(Runner):
    """Runs a gear on a board. `spent`: what the last run took; `limit_s`: the most that a kernel may take (default: by the model)."""

    def __init__(self, artifact: Artifact, board: Board, machine: Machine, release: str, limit_s: float | None = None) -> None:
        super().__init__(artifact)
        self.board, self.machine, self.release, self.limit_s = board, machine, release, limit_s
        self.spent, self.watch = Spent(), _see_nothing

    @cached_property
    def sources(self) -> Sources:
        """Return the kernels of the model, which are on the device then; what does not compile is refused."""
        programs = [c.program for c in self.artifact.groups if c.program is not None]
        made = write_sources(programs, self.machine, self.release)
        wrong = self.board.build(made)
        refused = {i: wrong[w.binary] for i, w in made.written.items() if w.binary in wrong}
        return replace(made, written={i: w for i, w in made.written.items() if i not in refused}, refused={**made.refused, **refused})

    @cached_property
    def plan(self) -> Plan:
        """Return where everything lies, and what is done in which order."""
        return plan_model(self.artifact, self.sources)

    @cached_property
    def bases(self) -> Mapping[str, int]:
        """Return zone -> address. The constants are there then."""
        return self.board.place(self.plan, self.artifact.weights)

    def ready(self) -> DeviceRunner:
        """Return this runner once everything that a run needs is on the device."""
        assert self.bases is not None
        return self

    def _run(self, feeds: Values) -> dict[str, Any]:
        self.ready()
        self.spent = Spent()
        return super()._run(feeds)

    def _run_place(self, at: Place, values: dict[str, Any]) -> Values:
        """Return its outputs, as stored, among other values."""
        part = self.plan.parts[at]
        known = _Known(self, part, values)
        with self.spent.on("copies_s"):
            for zeros in part.zeros:
                self.board.device.fill(self._at(zeros), 0, zeros.size)
            self._bring(part, values)
        for step in part.steps:
            if isinstance(step, HostStep):
                self._run_host(part, step, values, known)
            else:
                self._launch(part, step, known)
        return {name: known[name] for name in self.outputs[at]}

    def _run_host(self, part: Part, step: HostStep, values: dict[str, Any], known: Values) -> None:
        with self.spent.on("host_s"):
            made = self._run_group(step.compiled, known)
        made = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in made.items()}
        values.update(made)
        with self.spent.on("copies_s"):
            self._bring(part, made)

    def _bring(self, part: Part, arrays: Values) -> None:
        """Copy to the device those arrays that are used there."""
        for name, x in arrays.items():
            if name in part.spots:
                self.board.device.write(self._at(part.spots[name]), np.ascontiguousarray(x))

    def _launch(self, part: Part, step: Calls, known: Values) -> None:
        """Run a row of kernels. Run them one by one where somebody watches."""
        for calls in [step.calls] if self.watch is _see_nothing else [(c,) for c in step.calls]:
            before = {} if self.watch is _see_nothing else self._read(known, calls[0], "input")
            with self.spent.on("launches_s"), name_groups(calls):
                self.board.device.run([self.launch_of(c) for c in calls], self.limit_us(calls))
            self.spent.rows += 1
            if self.watch is not _see_nothing:
                self.watch(calls[0].compiled, before, self._read(known, calls[0], "output"))

    def limit_us(self, calls: Iterable[Call]) -> int:
        """Return the most microseconds that each of these kernels may take."""
        if self.limit_s is not None:
            return max(1, round(self.limit_s * 1e6))
        return max(LEAST_LIMIT_US, *[round(SLOWER * c.compiled.ticks * self.machine.us_per_tick) for c in calls])

    def launch_of(self, call: Call) -> Launch:
        """Return a call as the device takes it."""
        from aoec.acl.device import Launch
        kernel = call.written.kernel
        return Launch(self.board.kernel(kernel), kernel.blocks, tuple(self._at(s) for s in call.arguments))

    def _at(self, spot: Spot) -> int:
        return self.bases[spot.zone] + spot.start

    def _read(self, known: Values, call: Call, role: str) -> Arrays:
        """Return graph tensor -> stored array, for the tensors that a call reads or makes."""
        bound = dict(call.compiled.bindings)
        return {bound[a["name"]]: known[bound[a["name"]]] for a in call.written.facts["arguments"] if a["role"] == role}

    def read(self, part: Part, name: str) -> np.ndarray:
        """Return a stored tensor, from the device."""
        t, spot = self.tensors[name], part.spots[name]
        with self.spent.on("copies_s"):
            data = bytes(self.board.device.read(self._at(spot), spot.size))
        return np.frombuffer(data, NUMPY[t.dtype]).reshape(stored_shape(t))


@contextmanager
def name_groups(calls: Sequence[Call]) -> Iterator[None]:
    """Add the group's name to an error of a launch inside the block, and to a time limit's error how to raise the limit."""
    try:
        yield
    except NpuError as e:
        if 0 <= e.launch < len(calls):
            c = calls[e.launch].compiled
            e.args = (f"group {c.group} ({c.label or c.func_key[:12]}): {e}", *e.args[1:])
        if isinstance(e, (KernelHang, WaitTimeout)):
            e.args = (f"{e}; --limit SECONDS gives kernels more time", *e.args[1:])
        raise


def _see_nothing(compiled: Compiled, before: Arrays, after: Arrays) -> None:
    """Do nothing: no caller watches, and consecutive launches are one row."""


class _Known(ChainMap[str, Any]):
    """Stored values by name: what the host has, constants, and else what is read from the device."""

    def __init__(self, runner: DeviceRunner, part: Part, values: dict[str, Any]) -> None:
        super().__init__(values, runner.artifact.weights)  # type: ignore[arg-type]  # of which only the first is written to
        self.runner, self.part = runner, part

    def __missing__(self, name: str) -> Any:
        if name not in self.part.spots:
            raise KeyError(name)
        return self.runner.read(self.part, name)
