"""Steps of `aoec doctor --npu`, from the toolkit to a kernel of both kinds of core. Each step says what failed and what to do.

A user with a board runs these first. The report holds no name of a user or computer. Paths below the toolkit's root begin with the root's
variable, and only Ascend's variables are shown of the environment.
"""
from __future__ import annotations

import getpass
import os
import platform
import re
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aoec.acl.device import Device, Launch, open_device
from aoec.acl.known_good import empty_source
from aoec.acl.library import functions
from aoec.ascendc.kernel import write_kernel
from aoec.base.errors import AoecError, BackendError, CapacityError, UnsupportedError
from aoec.base.files.memo import cache_folder
from aoec.base.npu_errors import (
    CannNotFound,
    CompileError,
    DeviceBusy,
    KernelHang,
    NoDevice,
    NoDriver,
    NpuError,
    UnsupportedProduct,
)
from aoec.base.text import in_columns, plural
from aoec.ir.text.simplify import simplify
from aoec.jobs.npu.arena import ALIGN_BYTES
from aoec.jobs.npu.open_board import builder, device_facts, machine_of, test_device
from aoec.jobs.npu.time_on import check_values, hold_tensors
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.target.machine import Machine, load
from aoec.toolchain.build import Source, build
from aoec.toolchain.find import Toolkit, find_toolkit, spelling
from aoec.toolchain.probe import ask_compiler, plan

OK, FAILED, ABSENT, UNTRIED = "ok", "failed", "not here", "not tried"
CORE_TYPES = {2201: ("KERNEL_TYPE_AIV_ONLY", "KERNEL_TYPE_AIC_ONLY", "KERNEL_TYPE_MIX_AIC_1_2"), 2002: ("KERNEL_TYPE_AICORE",), 1001: ("",)}
VARIABLE = "ASCEND"  # how the names of the variables begin that are in the report
BYTES = 100_003  # of the memory copy: a prime, so that its end lies on no boundary
LIMIT_US = 5_000_000
ONE_KIND = "one kind of core"
HELP: tuple[tuple[type[BaseException], str], ...] = (
    (DeviceBusy, "end the process that has it, or name another device: aoec doctor --npu --device N"),
    (CannNotFound, "install CANN's toolkit, source its set_env.sh, and try again"),
    (NoDriver, "install the driver and firmware of the board; npu-smi info must list it"),
    (NoDevice, "npu-smi info lists the devices of this computer; a container needs /dev/davinci* and /dev/davinci_manager"),
    (UnsupportedProduct, "aoec writes kernels for Ascend910B and 910_93 (2201), 310P (2002) and 910A (1001)"),
    (CompileError, "send the report back: it holds the command line and what the compiler said"),
    (KernelHang, "send the report back; npu-smi info shows whether the device is well"))
SEND = "send the report back: this is where aoec and the board disagree"


@dataclass
class Step:
    """One step. `status` is ok, failed, not here (the product or release lacks it) or not tried. `said`: what was found. `short`: the first
    part of that, where the rest lists the places in `looked`, as an earlier step does. `help`: what to do."""

    name: str
    status: str = UNTRIED
    said: str = ""
    help: str = ""
    short: str = ""
    looked: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Visit:
    """What steps leave for later ones."""

    number: int
    held: ExitStack
    toolkit: Toolkit | None = None
    device: Device | None = None
    refused: NpuError | None = None
    machine: Machine | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def ready(self) -> tuple[Toolkit, Device, Machine]:
        assert self.toolkit is not None and self.device is not None and self.machine is not None
        return self.toolkit, self.device, self.machine


class NotHere(Exception):
    """What a product or release lacks, in a sentence."""


Do = Callable[[Visit, Step], str]


def see_toolkit(v: Visit, step: Step) -> str:
    v.toolkit = t = find_toolkit()
    step.facts = {"release": t.release, "version": t.version, "spelling": spelling(t), "layout": t.layout,
                  "libraries": [p.name for p in t.libraries], "headers": len(t.headers)}
    return f"CANN {t.version or t.release or 'of unknown release'}, spelt as {spelling(t)}, headers: {t.layout or 'not found'}"


def see_compiler(v: Visit, step: Step) -> str:
    assert v.toolkit is not None
    found = ask_compiler(v.toolkit)
    first = next(iter(found.version.splitlines()), "")
    step.facts = {"version": found.version[:400], "targets_ai_core": found.has_target,
                  "tools": {n: bool(x) for n, x in (("ld.lld", v.toolkit.linker), ("llvm-objcopy", v.toolkit.objcopy))}}
    return f"{first}; it {'names' if found.has_target else 'does not name'} the AI core among its targets"


def see_library(v: Visit, step: Step) -> str:
    """Load the library in a worker, which takes the device as well. A failure to take the device is reported by the step that it
    concerns."""
    assert v.toolkit is not None
    try:
        v.device = v.held.enter_context(open_device(v.toolkit, v.number))
    except (NoDriver, NoDevice, UnsupportedProduct, DeviceBusy) as e:
        v.refused = e
    except NpuError as e:
        if isinstance(e, CannNotFound):
            raise
        v.refused = e
    step.facts = {"libraries": [p.name for p in v.toolkit.libraries]}
    return f"{', '.join(p.name for p in v.toolkit.libraries)}: loaded"


def see_driver(v: Visit, step: Step) -> str:
    if isinstance(v.refused, NoDriver):
        raise v.refused
    return "it answers"


def see_device(v: Visit, step: Step) -> str:
    if v.refused is not None:
        raise v.refused
    assert v.toolkit is not None and v.device is not None
    f = v.device.facts
    v.machine = load(machine_of(f))
    v.facts = device_facts(v.number, f, v.toolkit)
    step.facts = {**v.facts, "memory_free": f.memory_free, "memory_total": f.memory_total, "l2_bytes": f.l2_bytes, "step_us": f.step_us,
                  "stops_on_failure": f.stops}
    return f"{f.soc}, product {f.product}, {f.memory_free / 2**30:.1f} of {f.memory_total / 2**30:.1f} GiB free"


def see_symbols(v: Visit, step: Step) -> str:
    _, device, _ = v.ready()
    known, found = functions(), device.facts.symbols
    missing = sorted(n for n in known if n not in found)
    step.facts = {"found": len(found), "missing": missing, "routes": list(device.facts.routes), "acl": device.facts.acl_version}
    if not device.facts.routes:
        raise BackendError("the library has none of the ways to launch a kernel")
    return f"{len(found)} of {len(known)} functions, ACL {device.facts.acl_version or 'of unknown version'}, launch by route " + (
        ", ".join(device.facts.routes))


def see_routes(v: Visit, step: Step) -> str:
    """Return an empty kernel of each kind of core is compiled."""
    toolkit, device, _ = v.ready()
    routes, first = dict[str, str](), None
    for kind in CORE_TYPES[device.facts.product]:
        try:
            routes[kind or ONE_KIND] = plan(toolkit, device.facts.product, kind).route
        except CompileError as e:
            first = first or e
            routes[kind or ONE_KIND] = "none"
    step.facts = {"routes": routes}
    if first is not None:
        raise first
    return ", ".join(f"{kind} by {route}" for kind, route in routes.items())


def copy_memory(v: Visit, step: Step) -> str:
    _, device, _ = v.ready()
    data = np.random.default_rng(1).integers(0, 256, BYTES).astype(np.uint8)
    at = device.allocate(BYTES)
    device.write(at, data)
    device.fill(at, 7, 64)
    got = np.asarray(device.read(at, BYTES))
    device.free(at)
    wrong = int((got[64:] != data[64:]).sum() + (got[:64] != 7).sum())
    if wrong:
        raise BackendError(f"{wrong:,} of {BYTES:,} bytes came back otherwise than they were written")
    return f"{BYTES:,} bytes there and back, and a fill"


def time_nothing(v: Visit, step: Step) -> str:
    """Return two events with nothing between them."""
    _, device, _ = v.ready()
    t = device.time([], LIMIT_US, spans=5, cold=0)
    step.facts = {"pair_us": [x * t.passes for x in t.hot_us]}
    return f"two events with nothing between them lie {t.hot * t.passes:,.2f} µs apart"


def time_empty(v: Visit, step: Step) -> str:
    toolkit, device, _ = v.ready()
    name, text, kind = empty_source(device.facts.product)
    (made,) = build([Source(name, text, kind, device.facts.product)], toolkit)
    if isinstance(made, BackendError):
        raise made
    at = device.allocate(ALIGN_BYTES)
    launch = Launch(device.load(made, name, kind), 1, (at,))
    device.run([launch], LIMIT_US)
    t = device.time([launch], LIMIT_US, spans=5, cold=3)
    step.facts = {"hot_us": list(t.hot_us), "cold_us": list(t.cold_us), "passes": t.passes, "emptied_by": t.emptied_by}
    if not min(t.hot_us) > 0:
        raise BackendError(f"two events say {min(t.hot_us)} µs for {t.passes} launches")
    return f"{t.hot:,.2f} µs a launch, back to back (least {t.least:,.2f}, {t.passes} launches a span)"


def add_known(v: Visit, step: Step) -> str:
    toolkit, device, _ = v.ready()
    test_device(device, toolkit)
    return "a vector is added to itself, and its values are right"


def try_operator(call: str) -> Do:
    """Return a step that runs an operator by its default schedule."""
    def do(v: Visit, step: Step) -> str:
        toolkit, device, machine = v.ready()
        p = problem(lower_operator(call), machine)
        try:
            kernel = write_kernel(simplify(p.program(start(p).best)), machine, spelling(toolkit))
        except (UnsupportedError, CapacityError) as e:
            raise NotHere(str(e)) from None
        step.facts = {"operator": call, "core_type": kernel.kind, "blocks": kernel.blocks}
        (made,) = builder(toolkit)([kernel])
        if isinstance(made, BackendError):
            raise made
        number, tensors = device.load(made, kernel.name, kernel.kind), hold_tensors(device, kernel)
        device.run([Launch(number, kernel.blocks, tuple(t.at for t in tensors.values()))], LIMIT_US)
        values = check_values(device, kernel, tensors)
        step.facts["values"] = values
        if any(x["wrong"] for x in values):
            said = ", ".join(f"{x['tensor']}: {x['relative'] if x['guards'] else 'bytes beside it were written'}" for x in values
                             if x["wrong"])
            raise BackendError(f"{call} gives other values than the model machine: {said}")
        worst = max(x["relative"] for x in values)
        return f"{call}: {plural(kernel.blocks, 'block')}, values within {worst:.1e} of the model machine"
    return do


def run_mixed(v: Visit, step: Step) -> str:
    """Return a kernel of both kinds of core, where the product has them apart."""
    said = try_operator("attention(b=1, m=32, n=32, d=32, fp16)")(v, step)
    if "MIX" not in step.facts["core_type"]:
        step.help = "this product has no cores of two kinds: the kernel uses cube and vector unit of one core"
    return said


STEPS: tuple[tuple[str, Do, bool], ...] = (  # name, what is done, whether later steps need it
    ("toolkit", see_toolkit, True), ("compiler", see_compiler, False), ("library", see_library, True), ("driver", see_driver, True),
    ("device", see_device, True), ("symbols", see_symbols, True), ("memory copy", copy_memory, True), ("event pair", time_nothing, False),
    ("compile routes", see_routes, False), ("empty kernel", time_empty, True), ("vector add", add_known, True),
    ("add of matrices", try_operator("add(m=16, n=1024, fp16)"), False),
    ("copy with a tail", try_operator("relu(m=3, n=1037, fp16)"), False),
    ("16x16x16 product", try_operator("matmul(m=16, k=16, n=16, fp16)"), False), ("both kinds of core", run_mixed, False))


def visit_npu(number: int, tell: Callable[[Step], None] = lambda step: None) -> dict[str, Any]:
    """Return the report: steps in order, each tried where nothing before it that it needs has failed. `tell` hears of each step at once."""
    steps, stopped = [], ""
    with ExitStack() as held:
        v = Visit(number, held)
        for name, do, needed in STEPS:
            step = Step(name)
            steps.append(step)
            if stopped:
                step.said = f"needs {stopped}"
            else:
                _take(v, step, do)
                if any(step.looked == s.looked for s in steps[:-1]):
                    step.looked = ()
                stopped = name if needed and step.status != OK else ""
            tell(step)
        report = {"kind": "aoec doctor --npu", "measured": "times are measured on the device, by pairs of events", "aoec": _version(),
                  "python": platform.python_version(), "system": f"{platform.system()} {platform.release()} {platform.machine()}",
                  "device": v.facts, "steps": [vars(s) for s in steps], "environment": _environment(),
                  "well": all(s.status in (OK, ABSENT) for s in steps)}
        hidden: dict[str, Any] = without_places(report, _places(v.toolkit))
        return hidden


def _take(v: Visit, step: Step, do: Do) -> None:
    """Take a step; a failure is the step's result. A worker that ended is replaced, so that later steps can be tried."""
    try:
        step.said, step.status = do(v, step), OK
    except NotHere as e:
        step.said, step.status = str(e), ABSENT
    except AoecError as e:
        step.said, step.status = str(e), FAILED
        step.help = next((text for kind, text in HELP if isinstance(e, kind)), SEND)
        if isinstance(e, CannNotFound):
            step.short, step.looked = e.short, e.looked
        if isinstance(e, CompileError):
            step.facts |= {"argv": list(e.argv), "log": e.log}
        if v.device is not None:
            try:
                v.device.recover()
            except AoecError as lost:
                step.said += f"; and the device did not recover: {lost}"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version
    try:
        return version("aoec")
    except PackageNotFoundError:
        return "unknown"


def _environment() -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLE)}


def _places(toolkit: Toolkit | None) -> list[tuple[str, str]]:
    """Return texts that say who or where somebody is, and what stands for them; the longest first."""
    found = {str(Path.home()): "~", str(cache_folder().absolute()): "<cache>", tempfile.gettempdir(): "<tmp>",
             socket.gethostname(): "<host>"}
    if toolkit is not None:
        found[str(toolkit.root)] = "<toolkit>"
    with suppress(KeyError, OSError):
        found[getpass.getuser()] = "<user>"
    return sorted(((k, v) for k, v in found.items() if len(k) > 2), key=lambda x: -len(x[0]))


def without_places(value: Any, places: list[tuple[str, str]]) -> Any:
    """Return plain values, in whose texts words stand for places."""
    if isinstance(value, str):
        for place, word in places:
            value = re.sub(rf"(?<!\w){re.escape(place)}(?!\w)", word, value)
        return value
    if isinstance(value, Mapping):
        return {k: without_places(v, places) for k, v in value.items()}
    return [without_places(v, places) for v in value] if isinstance(value, (list, tuple)) else value


def show_step(step: Step, width: int) -> str:
    """Return a step in lines of so many characters: what was found, the places that were searched (whole, to be copied), and what to do."""
    head = f"{step.status:9} {step.name:20} "
    said, helps = (in_columns(text, width - len(head)).split("\n") if text else [] for text in (step.short or step.said, step.help))
    lines = [*said, *[f"  {place}" for place in step.looked], *helps]
    return "\n".join(f"{'' if i else head:{len(head)}}{line}" for i, line in enumerate(lines))


def last_line(report: Mapping[str, Any], path: str | None) -> str:
    """Return what all steps come to, and where the report is."""
    done = sum(s["status"] == OK for s in report["steps"])
    stand_in = " The compiler is the stand-in of aoec: this is no device." if report["device"].get("stand_in") else ""
    said = f"{done} of {len(report['steps'])} steps are ok.{stand_in}"
    return f"{said} The report is {path}; send it back." if path else f"{said} --report FILE writes a report to send back."
