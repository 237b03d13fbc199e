"""Attention in one pass over the keys and in single operators, modelled; and beside published times of a hand-written kernel.

    python bench/attention.py [--target Ascend910B1] [--only bert,gpt2,long,long-fp32,decode,published] [--json]

The first part times both ways of a few models' attention by default schedules, from cold inputs. `aoec compile` chooses by these times. The
second part times schedules of one pass for the sizes of the PTO manual kernel on an A3 die. The source of these is hicann/pto-isa (commit
dd3cb0f, kernels/manual/common/flash_atten/README.md): fp16, one head of 128, not causal, 128 rows of queries on each core. The time is that
of the best of a few tiles, with the launch of one task. The memory state is that of a previous launch, as repeated launches see it. The
kernel's own tiling is not published. So a ratio only says how near the best of our schedules for that work is to theirs.
"""
from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec import primitives
from aoec.jobs.choose.attention import time_us
from aoec.jobs.stages.operators import graph_of
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.emit.emit import emit
from aoec.lowering.lower.lower import lower
from aoec.search.sketches.sketches import sketches
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.state import PREVIOUS_LAUNCH
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import Machine, load

MODELS = {"bert": "b=12, m=128, n=128, d=64, mask", "bert-512": "b=12, m=512, n=512, d=64, mask", "gpt2": "b=12, m=128, n=128, d=64, bias",
          "long": "b=32, m=2048, n=2048, d=128", "long-fp32": "b=32, m=2048, n=2048, d=128, fp32",
          "decode": "b=32, m=1, n=4096, d=128"}
PUBLISHED = ((128, 1024, 42.08), (128, 4096, 43.8), (128, 8192, 74.54), (256, 4096, 43.521), (256, 8192, 75.162), (1024, 1024, 63.72),
             (1024, 4096, 64.461), (1024, 8192, 107.342))  # queries, keys, µs measured
ROWS_A_CORE = 128
TILES = {"tr": (32, 64), "tp": (2, 4, 6), "n1": (8,), "k1": (8,), "do": (1, 2), "di": (2,), "dc": (1,), "d0b": (1,), "pl": (1,),
         "ps": (1, 2), "vc": (2,)}


def both_ways(name: str, machine: Machine) -> dict[str, Any]:
    """Return the modelled µs of one pass and of single operators."""
    graph, _ = graph_of(f"attention({MODELS[name]})")
    whole, single = (time_us(graph, machine, named) for named in ((), ("attention",)))
    return {"what": name, "sizes": MODELS[name], "one pass, µs": round(whole, 2), "single operators, µs": round(single, 2)}


def published(queries: int, keys: int, measured: float) -> dict[str, Any]:
    """Return the µs of the best of TILES on as many cores as the published kernel ran on, and the measured time."""
    machine = load("Ascend910_9392")
    graph, _ = graph_of(f"attention(b=1, m={queries}, n={keys}, d=128)")
    fused, weights = fuse(graph, {}, machine)
    assert not weights
    func = lower(fused, fused.groups[0])
    encoded = encode(emit(primitives.apply(func, sketches(func, machine)[0]), machine), machine)
    rows = np.array(list(product(*TILES.values()))).T
    columns = {**dict(zip(TILES, rows)), "gb": np.ones(rows.shape[1], int), "gm": np.full(rows.shape[1], queries // ROWS_A_CORE)}
    times = time_rows(encoded, {name: columns[name] for name in encoded.holes}, PREVIOUS_LAUNCH)
    best = min(int(t) for t, s in zip(times.total_ticks, times.status) if not s) * machine.us_per_tick
    return {"what": "published", "sizes": f"b=1, m={queries}, n={keys}, d=128", "modelled, µs": round(best, 2), "measured, µs": measured,
            "ratio": round(best / measured, 2)}


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="Ascend910B1")
    parser.add_argument("--only", default=",".join([*MODELS, "published"]))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted, machine = options.only.split(","), load(options.target)
    for name in (n for n in MODELS if n in wanted):
        say(both_ways(name, machine), options.json)
    for case in PUBLISHED if "published" in wanted else ():
        say(published(*case), options.json)


def say(row: dict[str, Any], as_json: bool) -> None:
    words = [str(v) if k in ("what", "sizes") else f"{k} {v}" for k, v in row.items()]
    print(json.dumps(row) if as_json else "  ".join(words), flush=True)


if __name__ == "__main__":
    main()
