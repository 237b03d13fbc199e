"""Timing of a kernel on a device (`aoec simulate g.prog --on npu`). Its values are checked first, between guards and over poison. Its times
are then compared with the model's."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from aoec.acl.device import Device, Launch
from aoec.acl.known_good import empty_source
from aoec.acl.times import Timing
from aoec.artifact.compiled import Port
from aoec.ascendc.kernel import Kernel, write_kernel
from aoec.ascendc.manifest import manifest
from aoec.base.text import plural
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.ir.text.simplify import simplify
from aoec.jobs.npu.against import OF_GROUP, Difference, differ
from aoec.jobs.npu.arena import ALIGN_BYTES, align
from aoec.jobs.npu.device_runner import LEAST_LIMIT_US, SLOWER
from aoec.jobs.npu.open_board import open_board
from aoec.jobs.npu.said import device_words, difference_facts, place_words, say_difference
from aoec.jobs.run.run import random_array
from aoec.simulate.timing.state import COLD, PREVIOUS_LAUNCH
from aoec.simulate.timing.time import measure
from aoec.simulate.values.values import execute
from aoec.target.isa.meaning import NUMPY_DTYPES
from aoec.target.isa.scales import scale_words, word_tensors
from aoec.target.machine import Machine

GUARD_BYTES, GUARD, POISON = 4096, 0xA5, 0xFF
SEED = 0
HOW = ("hot: launches back to back between two events, after at least 3 that warm up; cold: single launches between two events, L2 emptied "
       "before each; empty: as hot, of a kernel that does nothing on as many blocks")


@dataclass(frozen=True)
class Held:
    """A tensor on the device, in an allocation that holds guards from end to end. `room`: bytes behind it that the kernel may read, which
    are poison."""

    name: str
    base: int
    whole: int
    at: int
    size: int
    room: int

    def read(self, device: Device) -> tuple[np.ndarray, bool]:
        """Return (its bytes, whether nothing was written before or behind it)."""
        data, first = device.read(self.base, self.whole), self.at - self.base
        end = first + self.size
        beside = bool((data[:first] == GUARD).all() and (data[end + self.room:] == GUARD).all())
        return data[first:end], beside and bool((data[end:end + self.room] == POISON).all())


def hold(device: Device, name: str, data: np.ndarray, room: int) -> Held:
    """Return a tensor with its guards."""
    whole = data.nbytes + room + 2 * GUARD_BYTES + ALIGN_BYTES
    base = device.allocate(whole)
    held = Held(name, base, whole, align(base + GUARD_BYTES), data.nbytes, room)
    device.fill(base, GUARD, whole)
    device.write(held.at, data.view(np.uint8))
    if room:
        device.fill(held.at + held.size, POISON, room)
    return held


def time_on_device(program: Program, machine: Machine, number: int, limit_s: float | None = None) -> dict[str, Any]:
    """Return the facts of a program on a device: values, measured times, modelled times. No time is measured where values are wrong."""
    modelled = {"hot": measure(program, machine, PREVIOUS_LAUNCH), "cold": measure(program, machine, COLD)}
    limit_us = round(limit_s * 1e6) if limit_s is not None else max(LEAST_LIMIT_US, round(SLOWER * modelled["cold"].time_us))
    with open_board(number, machine) as opened:
        kernel = write_kernel(simplify(program), machine, opened.release)
        name, text, kind = empty_source(int(kernel.product), kernel.kind)
        first, empty = opened.board.load([kernel, replace(kernel, name=name, source=text, kind=kind)])
        device = opened.board.device
        tensors = hold_tensors(device, kernel)
        launch = Launch(first, kernel.blocks, tuple(t.at for t in tensors.values()))
        device.run([launch], limit_us)
        values = check_values(device, kernel, tensors)
        facts = {"program": program.name, "target": machine.name, **opened.facts, "core_type": kernel.kind, "blocks": kernel.blocks,
                 "values": values, "wrong": any(v["wrong"] for v in values),
                 "modelled": {state: {"time_us": m.time_us, "launch_us": m.launch_us} for state, m in modelled.items()}}
        if not facts["wrong"]:
            facts["measured"] = timing_facts(device.time([launch], limit_us, Launch(empty, kernel.blocks, launch.arguments[:1])))
    return facts


def inputs_of(program: Program) -> dict[str, np.ndarray]:
    """Return seeded values of a program's inputs, flat: normal reals, small whole numbers, and words of scales between 0.001 and 0.1."""
    found = [t for t in program.tensors if t.role == "input"]
    ports = [Port(t.name, t.name, t.dtype, tuple(int(evaluate(d, {})) for d in t.shape)) for t in found]
    words, out = word_tensors(program), dict[str, np.ndarray]()
    for i, p in enumerate(ports):
        random = np.random.default_rng([SEED, i])
        out[p.name] = (scale_words(random.uniform(0.001, 0.1, prod(p.shape)), words[p.name]) if p.name in words
                       else random_array(p, random).reshape(-1))
    return out


def hold_tensors(device: Device, kernel: Kernel) -> dict[str, Held]:
    """Return every argument of a kernel on the device, in order: inputs with their values, zeros where it adds, else poison."""
    given, facts = inputs_of(kernel.program), manifest(kernel)
    out = {}
    for a in facts["arguments"]:
        blank = np.full(a["bytes"], 0 if a["zeros"] else POISON, np.uint8)
        data = given[a["name"]].view(np.uint8) if a["role"] == "input" else blank
        out[a["name"]] = hold(device, a["name"], data, facts["reads_on_bytes"])
    return out


def check_values(device: Device, kernel: Kernel, tensors: Mapping[str, Held]) -> list[dict[str, Any]]:
    """Return the difference of each tensor from what the model machine computes, and whether its guards are whole. Inputs must be
    unchanged."""
    given = inputs_of(kernel.program)
    wanted = {**given, **execute(kernel.program, given)}
    out = []
    for t in kernel.program.tensors:
        data, whole = tensors[t.name].read(device)
        if t.role == "temp":
            found = Difference(t.name, 0.0, 0.0)
        elif t.role == "input":
            found = Difference(t.name, 0.0 if data.tobytes() == wanted[t.name].tobytes() else float("inf"), 0.0)
        else:
            found = differ(t.name, data.view(NUMPY_DTYPES[t.dtype]), wanted[t.name].reshape(-1), t.dtype, OF_GROUP)
        out.append({**difference_facts(found), "role": t.role, "guards": whole, "wrong": found.wrong or not whole})
    return out


def timing_facts(t: Timing) -> dict[str, Any]:
    """Return times as plain values, with how they were measured."""
    return {"kind": "measured", "source": t.source, "how": HOW, "hot_us": {"least": t.least, "median": t.hot, "spread": t.spread},
            "spans": len(t.hot_us), "passes": t.passes, "cold_us": {"median": t.cold, "least": min(t.cold_us, default=0.0)},
            "cold_passes": len(t.cold_us), "emptied_by": t.emptied_by, "empty_us": t.empty, "launch_bound": t.launch_bound}


def lines(facts: Mapping[str, Any]) -> str:
    """Return the facts for people."""
    where = device_words(facts)
    out = [f"{facts['program']} on {facts['device']}, {place_words(facts)}; {plural(facts['blocks'], 'block')} "
           f"({facts['core_type'] or 'one kind of core'})"]
    for v in facts["values"]:
        if not v["guards"]:
            out.append(f"wrong: bytes beside {v['tensor']} were written")
        elif v["wrong"] and v["role"] == "input":
            out.append(f"wrong: the input {v['tensor']} was written to")
        elif v["role"] == "output":
            out.append(f"{'wrong values' if v['wrong'] else 'values'}: {v['tensor']} differs from the model machine by "
                       f"{say_difference(v)}, allowed {v['allowed']:.1e} (max|a-b| / max|b|)")
    modelled = facts["modelled"]
    if m := facts.get("measured"):
        hot, cold = m["hot_us"], m["cold_us"]
        out += [f"measured on {where}, by events; modelled on {facts['target']}",
                f"hot    {hot['median']:,.2f} µs measured (least {hot['least']:,.2f}, spread {hot['spread']:.0%}, {m['spans']} spans of "
                f"{m['passes']} passes), {modelled['hot']['time_us']:,.2f} µs modelled",
                f"cold   {cold['median']:,.2f} µs measured (median of {m['cold_passes']}, L2 emptied by {m['emptied_by']}), "
                f"{modelled['cold']['time_us']:,.2f} µs modelled",
                f"empty  {m['empty_us']:,.2f} µs measured, {modelled['hot']['launch_us']:,.2f} µs modelled of a launch"]
        if m["launch_bound"]:
            out.append("this kernel is launch bound: its time is within 3 times that of an empty one, and says little of the kernel itself")
    else:
        out.append("no time was measured, for values are wrong")
    return "\n".join(out) + "\n"
