"""Run: what `aoec run` does: a compiled model from its file, executed on data by the programs in it."""
from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any

import numpy as np

from aoec.artifact.artifact import load_gears
from aoec.artifact.compiled import Artifact, Port
from aoec.base.errors import CapacityError, CheckError
from aoec.base.files import arrays
from aoec.base.files.files import note, write_text
from aoec.jobs.compile.gears import find_gear, pick
from aoec.jobs.run.execute import run_model
from aoec.jobs.verify.legal import legal
from aoec.ops import typed
from aoec.ops.narrowed import counts
from aoec.ops.run import NUMPY, REALS
from aoec.options.func import RunOptions
from aoec.target import machine as machines
from aoec.target.machine import Machine

OWN = "{} is no machine that comes with aoec; the artifact holds it (machine.toml), and its modelled times are that machine's"
STALE = "{} has other numbers now than when this model was compiled: its modelled times are stale; compile it again"
INTEGERS = (0, 2)  # random values of inputs that are not reals: small, as indices and masks are


def run_artifact(options: RunOptions) -> int:
    """Return the exit code, 0; the outputs are written where -o says, and what they are is printed."""
    gears = load_gears(options.model)
    aside = check_programs(gears, options.model)
    artifact, feeds = read_feeds(gears, options)
    started = time.monotonic()
    outputs = run_model(artifact, feeds)
    seconds = time.monotonic() - started
    if options.output:
        arrays.save(options.output, plain_arrays(outputs))
    facts = {**facts_of(artifact, outputs), "seconds_on_this_computer": round(seconds, 3), **({"note": aside} if aside else {})}
    if aside:
        note(f"note: {aside}")
    write_text("-", json.dumps(facts, indent=2) + "\n" if options.json else lines(facts, options))
    return 0


def read_feeds(gears: Sequence[Artifact], options: RunOptions) -> tuple[Artifact, dict[str, Any]]:
    """Return (the gear that runs, its inputs by name): those of --inputs, else random ones of --gear or the first."""
    if not options.random and options.inputs is not None:
        feeds: dict[str, Any] = arrays.load(options.inputs)
        return pick(gears, feeds), feeds
    artifact = find_gear(gears, options.gear) if options.gear else gears[0]
    return artifact, random_feeds(artifact, options.seed)


def facts_of(artifact: Artifact, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run says of the model, its outputs and its modelled times."""
    return {"model": artifact.name, "target": artifact.target, "precision": artifact.precision, "lowered": counts(artifact.graph),
            **({"gear": artifact.gear} if artifact.gear else {}),
            "outputs": {name: summary(x) for name, x in outputs.items()}, "modelled": modelled_times(artifact)}


def check_programs(gears: Sequence[Artifact], source: str) -> str:
    """Return a note on the machine where it does not come with aoec or its numbers have changed, else "". Raise CheckError where a program
    is not legal on it, or where no machine is known to check it on."""
    machine, note = machine_of(gears[0], source)
    for program in {id(c.program): c.program for a in gears for c in a.groups if c.program is not None}.values():
        try:
            legal(program, machine)
        except (CheckError, CapacityError) as e:
            raise CheckError(f"program {program.name} is not legal on {machine.name}: {e}; compile the model again", source=source) from e
    return note


def machine_of(artifact: Artifact, source: str) -> tuple[Machine, str]:
    """Return (the machine that an artifact was compiled for, a note on it or ""). The machine is from the artifact itself, else found by
    name."""
    known = machines.load(artifact.target) if artifact.target in machines.targets() else None
    stale = known is not None and known.hash != artifact.machine_hash
    if artifact.machine:
        own = machines.parse_machine(artifact.machine, f"{source}: machine.toml")
        if (own.name, own.hash) != (artifact.target, artifact.machine_hash):
            raise CheckError("this artifact contradicts itself: its machine.toml is not the machine that its manifest names; compile the "
                             "model again", source=source)
        if known is None:
            return own, OWN.format(artifact.target)
    elif known is None:
        raise CheckError(f"this artifact was compiled for {artifact.target}, which is no machine that comes with aoec, and does not "
                         "hold it (machine.toml): its programs cannot be checked, and are not run; compile the model again", source=source)
    else:
        own = known
    return own, STALE.format(artifact.target) if stale else ""


def random_feeds(artifact: Artifact, seed: int) -> dict[str, np.ndarray]:
    """Return seeded inputs by name: standard normal for reals, small integers and booleans for others. Raise CheckError for an input that
    is no array of numbers with a fixed shape."""
    return {p.name: random_array(p, np.random.default_rng([seed, i])) for i, p in enumerate(artifact.inputs)}


def random_array(port: Port, random: np.random.Generator) -> np.ndarray:
    dtype, shape = (NUMPY[port.dtype], port.shape) if port.dtype in NUMPY else _array_of(port)
    if port.dtype in REALS or np.dtype(dtype).kind in "fc":
        return random.standard_normal(shape, np.float32).astype(dtype)
    return random.integers(*INTEGERS, shape).astype(dtype)


def _array_of(port: Port) -> tuple[Any, tuple[int, ...]]:
    """Return NumPy's dtype and the shape of an input that only the host holds."""
    element, dims = typed.tensor(port.dtype) or ("", None)
    if dims is None or element == "string" or element not in typed.NUMPY or not all(isinstance(d, int) for d in dims):
        raise CheckError(f"input {port.name} is {port.dtype}, of which no random value is made; give it with --inputs")
    return typed.NUMPY[element], dims


def plain_arrays(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the outputs as plain arrays. A sequence is an array for each element, and texts have a fixed width. Elements of few bits are
    the bytes that hold them, and an output that is nothing is left out."""
    out: dict[str, np.ndarray] = {}
    for name, x in outputs.items():
        if isinstance(x, list):
            out.update(plain_arrays({f"{name}[{i}]": element for i, element in enumerate(x)}))
        elif x is not None:
            out[name] = x.astype(np.str_) if x.dtype == np.object_ else typed.in_bytes(x)
    return out


# ---------------------------------------------------------------- what is said

def summary(x: Any) -> dict[str, Any]:
    """Return shape, dtype and range of an output, and the place of the largest value in each row of logits. Return the length of a
    sequence."""
    if not isinstance(x, np.ndarray):
        return {"shape": [len(x)] if x is not None else [], "dtype": "sequence" if x is not None else "nothing", "finite": True}
    if x.dtype.kind not in "fiub" and x.dtype != NUMPY["bf16"]:
        return {"shape": list(x.shape), "dtype": str(x.dtype), "finite": True}
    wide = x.astype(np.float64)
    out: dict[str, Any] = {"shape": list(x.shape), "dtype": str(x.dtype), "finite": bool(np.isfinite(wide).all())}
    if wide.size and not np.isnan(wide).all():
        out.update(min=float(np.nanmin(wide)), max=float(np.nanmax(wide)))
    if x.ndim == 2 and x.shape[1]:
        out["argmax"] = wide.argmax(axis=1).tolist()
    return out


def modelled_times(artifact: Artifact) -> dict[str, float]:
    """Return the modelled times that the artifact carries, as people read them."""
    figures = dict(artifact.figures)
    out: dict[str, float] = {}
    if figures.get("latency_ns"):
        out["latency_us"] = figures["latency_ns"] / 1000
    if figures.get("throughput_period_ns"):
        out["inferences_per_second"] = round(1e9 / figures["throughput_period_ns"], 2)
    return out


def lines(facts: Mapping[str, Any], options: RunOptions) -> str:
    """Return the facts for people: a line an output, then the times, each saying what it is."""
    out = [*(output_line(name, s) for name, s in facts["outputs"].items()), *modelled_line(facts)]
    out.append(f"executed in {facts['seconds_on_this_computer']:,.2f} s on this computer (the programs' values, interpreted)")
    if options.output:
        out.append(f"wrote {options.output}")
    return "\n".join(out) + "\n"


def modelled_line(facts: Mapping[str, Any]) -> list[str]:
    """Return a line with the modelled times; none where the file has none."""
    said: dict[str, Callable[[float], str]] = {"latency_us": lambda us: f"latency {us:,.2f} µs",
                                               "inferences_per_second": lambda n: f"throughput {rate(n)} inferences a second"}
    gear = f", gear {facts['gear']}" if "gear" in facts else ""
    times = ", ".join(said[k](v) for k, v in facts["modelled"].items())
    return [f"modelled on {facts['target']}{gear}: {times}"] if times else []


def rate(a_second: float) -> str:
    """Return inferences a second with as many digits as hold: a file has the time of one in whole nanoseconds."""
    return f"{a_second:,.{max(0, min(2, 4 - int(log10(max(a_second, 1)))))}f}"


def output_line(name: str, s: Mapping[str, Any]) -> str:
    """Return name, shape, dtype and range of an output."""
    text = f"{name}: {s['dtype']}{s['shape']}"
    if "min" in s:
        text += f", {s['min']:.6g} to {s['max']:.6g}"
    if not s["finite"]:
        text += ", with values that are not finite"
    if "argmax" in s:
        rows = s["argmax"]
        text += f", argmax {', '.join(map(str, rows[:8]))}{', ...' if len(rows) > 8 else ''}"
    return text
