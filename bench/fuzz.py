"""Damaged ONNX models: each gives a result equal to onnxruntime's, or one clear sentence, in bounded time and memory.

    python bench/fuzz.py [-n 2000] [--first 0] [--step 1] [--jobs 2] [--keep DIR]

Number i takes the i-th model of ONNX's backend tests, and begins again after the last one. i alone decides the damage: bytes are flipped,
the file is cut short, or the model is edited (attributes, shapes, types, names, operators, constants). The model is imported, compiled and
run in a process of its own, with at most 30 s of CPU time and 4 GiB. Another process compares its results with onnxruntime's. The exit code
is 1 where a model has another outcome: a traceback, a hang, too much memory, another value.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import nodes  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402

from aoec.backend import PRECISION  # noqa: E402
from aoec.base.errors import AoecError, CheckError  # noqa: E402
from aoec.base.files import arrays  # noqa: E402
from aoec.frontend.translate.onnx import load  # noqa: E402
from aoec.jobs.compile.untuned import compile_untuned  # noqa: E402
from aoec.jobs.run.execute import run_model  # noqa: E402
from aoec.jobs.run.run import plain_arrays, random_feeds  # noqa: E402
from aoec.target import machine  # noqa: E402

SECONDS, LIMIT_BYTES, SENTENCE = 30, 4 << 30, 1000
PATIENCE = 10  # times as many seconds by the clock, which tells more of what else the computer does
NEAR = 1e-3  # of the largest value of an output
GOOD = ("same", "refused", "ran", "other refuses")
NUMBERS = (0, 1, -1, 2, 3, -2, 7, 127, 255, 65536, 2**31 - 1, -2**31, 2**31, 2**62, -2**63)
Random = np.random.Generator
Edit = Callable[[onnx.ModelProto, Random], None]


# ---------------------------------------------------------------- damage

def damaged(data: bytes, random: Random) -> bytes:
    """Return the model's bytes after some harm."""
    kind = random.integers(4)
    if kind == 0:
        out = bytearray(data)
        for at in random.integers(0, len(out), random.integers(1, 9)):
            out[at] ^= 1 << random.integers(8)
        return bytes(out)
    if kind == 1:
        return data[:random.integers(len(data))]
    model = onnx.ModelProto()
    model.ParseFromString(data)
    for _ in range(random.integers(1, 4)):
        EDITS[random.integers(len(EDITS))](model, random)
    return model.SerializeToString()


def pick(items: Any, random: Random) -> Any:
    """Return one of them, None where there is none."""
    return items[int(random.integers(len(items)))] if len(items) else None


def edit_attribute(model: onnx.ModelProto, random: Random) -> None:
    node = pick(model.graph.node, random)
    a = pick(node.attribute, random) if node is not None else None
    if a is None:
        return
    kind = random.integers(4)
    if kind == 0:
        node.attribute.remove(a)
    elif a.type == onnx.AttributeProto.INTS and kind == 1:
        a.ints.append(int(pick(NUMBERS, random)))
    elif a.type == onnx.AttributeProto.INTS and a.ints:
        a.ints[int(random.integers(len(a.ints)))] = int(pick(NUMBERS, random))
    elif a.type == onnx.AttributeProto.INT:
        a.i = int(pick(NUMBERS, random))
    elif a.type == onnx.AttributeProto.FLOAT:
        a.f = float(pick((0.0, -1.0, 1e30, np.inf, np.nan), random))
    elif a.type == onnx.AttributeProto.STRING:
        a.s = bytes(pick((b"", b"SAME_UPPER", b"none", b"\xff\xfe", b"x" * 99), random))
    else:
        a.type = int(random.integers(15))


def edit_shape(model: onnx.ModelProto, random: Random) -> None:
    info = pick([*model.graph.input, *model.graph.output, *model.graph.value_info], random)
    dims = info.type.tensor_type.shape.dim if info is not None else []
    kind = random.integers(4)
    if len(dims) == 0 or kind == 0:
        if info is not None:
            info.type.tensor_type.shape.dim.add().dim_value = int(pick(NUMBERS, random))
    elif kind == 1:
        del dims[int(random.integers(len(dims)))]
    else:
        pick(dims, random).dim_value = int(pick(NUMBERS, random))


def edit_type(model: onnx.ModelProto, random: Random) -> None:
    info = pick([*model.graph.input, *model.graph.output], random)
    if info is not None:
        info.type.tensor_type.elem_type = int(random.integers(26))


def edit_name(model: onnx.ModelProto, random: Random) -> None:
    node = pick(model.graph.node, random)
    names = [n for m in model.graph.node for n in (*m.input, *m.output)] + ["", "nobody", "ü\n\"x\"", "as"]
    of = pick([f for f in (node.input, node.output) if len(f)], random) if node is not None else None
    if of is not None:
        of[int(random.integers(len(of)))] = str(pick(names, random))


def edit_node(model: onnx.ModelProto, random: Random) -> None:
    node = pick(model.graph.node, random)
    if node is None:
        return
    kind = random.integers(4)
    if kind == 0:
        model.graph.node.remove(node)
    elif kind == 1:
        model.graph.node.add().CopyFrom(node)
    elif kind == 2:
        node.op_type = str(pick(sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}), random))
    else:
        del node.input[int(random.integers(len(node.input) + 1)):]


def edit_constant(model: onnx.ModelProto, random: Random) -> None:
    w = pick([*model.graph.initializer, *[a.t for n in model.graph.node for a in n.attribute if a.HasField("t")]], random)
    if w is None:
        return
    kind = random.integers(4)
    if kind == 0:
        w.dims.append(int(pick(NUMBERS, random)))
    elif kind == 1:
        w.data_type = int(random.integers(26))
    elif kind == 2 and w.raw_data:
        w.raw_data = w.raw_data[:int(random.integers(len(w.raw_data)))]
    elif len(w.dims):
        w.dims[int(random.integers(len(w.dims)))] = int(pick(NUMBERS, random))


def edit_version(model: onnx.ModelProto, random: Random) -> None:
    for o in model.opset_import:
        o.version = int(pick((0, 1, 6, 7, 11, 13, 18, 99, -1), random))
    model.ir_version = int(pick((0, 3, 8, 99), random))


EDITS: tuple[Edit, ...] = (edit_attribute, edit_attribute, edit_shape, edit_type, edit_name, edit_node, edit_constant, edit_version)


# ---------------------------------------------------------------- one model

@dataclass(frozen=True)
class Outcome:
    """What became of a damaged model; `status` is one of GOOD, or what is wrong: fault, differs, hang, memory, died."""

    number: int
    base: str
    status: str
    said: str = ""
    seconds: float = 0.0
    memory_bytes: int = 0


def ours(folder: Path, random_seed: int) -> dict[str, str]:
    """Import, compile and run the model in a folder. Leave the feeds and outputs there."""
    try:
        graph, weights, _ = load(folder / "model.onnx", precision=PRECISION)
        artifact, _ = compile_untuned(graph, weights, PRECISION, machine.load())
        try:
            feeds = random_feeds(artifact, random_seed)
        except CheckError as e:  # of a text or a sequence there is no random value
            return {"status": "ran", "said": str(e)}
        arrays.save(folder / "in.npz", plain_arrays(feeds))
        arrays.save(folder / "out.npz", plain_arrays(run_model(artifact, feeds)))
    except AoecError as e:
        text = str(e)
        return {"status": "refused" if len(text.splitlines()) == 1 and len(text) <= SENTENCE else "fault", "said": text}
    except MemoryError:
        return {"status": "refused", "said": "out of memory"}  # as the command line says it
    except Exception:
        return {"status": "fault", "said": traceback.format_exc()}
    return {"status": "ran"}


def theirs(folder: Path) -> dict[str, str]:
    """Run onnxruntime on the same model and feeds; compares."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, 1, 1
    try:
        session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
        made = session.run(None, arrays.load(folder / "in.npz"))
    except Exception as e:  # its errors have no class in common but this one
        return {"status": "other refuses", "said": str(e)[:200]}
    got = arrays.load(folder / "out.npz")
    wanted = plain_arrays({o.name: x for o, x in zip(session.get_outputs(), made)})
    for name, x in wanted.items():
        if why := differs(got.get(name), x):
            return {"status": "differs", "said": f"{name}: {why}"}
    return {"status": "same"}


def differs(got: np.ndarray | None, wanted: np.ndarray) -> str:
    """Return why two outputs are not equal, "" where they are."""
    if got is None or got.shape != wanted.shape:
        return f"shape {list(wanted.shape)} is wanted, and {None if got is None else list(got.shape)} is made"
    if wanted.dtype.kind not in "fiub" or got.dtype.kind not in "fiub":
        return "" if np.array_equal(got, wanted) else "values differ"
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=1e-30))
    with np.errstate(all="ignore"):
        wrong = ~((np.abs(a - b) <= NEAR * scale) | (a == b) | (np.isnan(a) & np.isnan(b)))
    return f"{int(wrong.sum())} of {wrong.size} elements differ, such as {a[wrong][0]:.6g} for {b[wrong][0]:.6g}" if wrong.any() else ""


def guarded(work: Callable[[], dict[str, str]], result: Path) -> tuple[dict[str, str], float, int]:
    """Return (what the work says in a process of its own, its seconds of processors, its bytes); it is ended where it takes too long."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(SECONDS), math.ceil(SECONDS)))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            result.write_text(json.dumps(work()), "utf-8", "replace")
        finally:
            os._exit(0)
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > PATIENCE * SECONDS:
            os.kill(child, signal.SIGKILL)
            os.wait4(child, 0)
            return {"status": "hang"}, time.monotonic() - began, 0
        time.sleep(0.002)
    seconds, size_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    if seconds >= SECONDS:  # the system has ended it
        return {"status": "hang"}, seconds, size_bytes
    said = json.loads(result.read_text("utf-8")) if result.exists() and not status else {"status": "died", "said": f"wait status {status}"}
    return ({"status": "memory"} if size_bytes > LIMIT_BYTES else said), seconds, size_bytes


def outcome(number: int, bases: list[Any], keep: Path | None = None) -> Outcome:
    """Return the outcome of the model of that number."""
    test = bases[number % len(bases)]
    data = (test.model or onnx.load(Path(test.model_dir) / "model.onnx")).SerializeToString()
    broken = damaged(data, np.random.default_rng(number))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(broken)
        said, seconds, size_bytes = guarded(partial(ours, folder, number), folder / "ours.json")
        if said["status"] == "ran" and (folder / "out.npz").exists() and not random_in(broken):
            other, _, _ = guarded(partial(theirs, folder), folder / "theirs.json")
            said = other if other["status"] in ("same", "differs") else {"status": "other refuses"}
    if keep and said["status"] not in GOOD:
        (keep / f"{number}.onnx").write_bytes(broken)
    return Outcome(number, test.name, said["status"], said.get("said", ""), seconds, size_bytes)


def random_in(data: bytes) -> bool:
    """Return True for a model of random numbers."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return False
    return bool(nodes.RANDOM.union(("Dropout",)).intersection(nodes.operators_of(model.graph)))


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("-n", type=int, default=2000, help="how many (default: 2000)")
    p.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    p.add_argument("--step", type=int, default=1, help="from one number to the next (default: 1)")
    p.add_argument("--jobs", type=int, default=1, help="processes, each of which takes every so-manieth number (default: 1)")
    p.add_argument("--keep", type=Path, help="a folder for those that something is wrong with")
    options = p.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    bases = nodes.tests()
    nodes.outcome(nodes.tests("test_add")[0])  # compiles the kernels, where nothing else has yet
    rank = next((r for r in range(1, options.jobs) if not os.fork()), 0)
    found = []
    for at in range(rank, options.n, options.jobs):
        found.append(outcome(options.first + at * options.step, bases, options.keep))
        if found[-1].status not in GOOD:
            o = found[-1]
            print(f"{o.number} ({o.base}): {o.status}, {o.seconds:.1f} s: {o.said.strip().splitlines()[-1] if o.said else ''}", flush=True)
    counts = Counter(o.status for o in found)
    most = f"longest {max(o.seconds for o in found):.1f} s, most memory {max(o.memory_bytes for o in found) / 2**30:.2f} GiB"
    print(f"{len(found):,} models: {', '.join(f'{n:,} {s}' for s, n in counts.most_common())}; {most}", flush=True)
    return int(any(o.status not in GOOD for o in found))


if __name__ == "__main__":
    sys.exit(main())
