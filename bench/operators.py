"""Random single operators against onnxruntime: attributes, shapes, dtypes and special values drawn from a seed.

    python bench/operators.py [-n 4000] [--seed 0] [--only OP] [--list] [--save DIR]

Each case is one node, compiled as `--precision keep` does, each group with a legal schedule that nobody timed, and run on the modelled AI
Core. A case is same, known (the table of docs/operators.md says who differs from whom), refused (a sentence), skipped (onnxruntime does not
run it), wrong or fault. Exit code 1 where one is wrong or a fault.
"""
from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from single import elementwise, movement, rows  # noqa: E402
from single.case import Case, Maker  # noqa: E402

from aoec.base.errors import AoecError  # noqa: E402
from aoec.frontend.differences import of_node  # noqa: E402
from aoec.frontend.translate.onnx import load  # noqa: E402
from aoec.jobs.compile.untuned import compile_untuned  # noqa: E402
from aoec.jobs.run.execute import Runner  # noqa: E402
from aoec.target import machine  # noqa: E402

FAMILIES = (*elementwise.FAMILIES, *rows.FAMILIES, *movement.FAMILIES)
STATUSES = ("same", "known", "refused", "skipped", "wrong", "fault")
RELATIVE = {"float32": 2e-5, "float16": 4e-3}  # of a result, or of the largest one where results are sums
LEAST = {"float32": 1e-6, "float16": 1e-3}  # differences below this do not count


@dataclass(frozen=True)
class Outcome:
    """What became of a case, why, and after how many seconds of CPU time."""

    case: Case
    status: str
    why: str
    seconds: float


def cases(count: int, seed: int, only: str = "") -> Iterator[Case]:
    """Yield cases out of `count` draws, those of the operator `only` where it is named. Each has its own seed, so it can be drawn alone."""
    for number in range(count):
        case = draw(seed, number)
        if not only or case.op == only:
            yield case


def draw(seed: int, number: int) -> Case:
    """Return the case of a number."""
    maker = Maker(np.random.default_rng([seed, number]))
    return FAMILIES[number % len(FAMILIES)](maker)


def outcome(case: Case) -> Outcome:
    """Return the outcome of a case: onnxruntime's values against ours."""
    began = time.process_time()
    status, why = _outcome(case)
    return Outcome(case, status, why, time.process_time() - began)


def _outcome(case: Case) -> tuple[str, str]:
    try:
        wanted = run_onnxruntime(case)
    except Exception as e:  # its errors have no class in common but this one
        return "skipped", first_line(e)
    try:
        got = run_aoec(case)
    except AoecError as e:
        return "refused", first_line(e)
    except Exception as e:  # whatever it is, it is noted, and is a fault of ours
        return "fault", f"{type(e).__name__}: {first_line(e)}"
    apart = [differ(g, w, case) for g, w in zip(got, wanted)]
    said = [f"result {at}: {d}" for at, (g, w, m) in enumerate(zip(got, wanted, apart)) if (d := describe(g, w, m, case))]
    if not said:
        return "same", ""
    if all(m is not None for m in apart) and (known := explanation(case, wanted, apart)):
        return "known", known
    return "wrong", "; ".join(said)


def explanation(case: Case, wanted: Sequence[Any], apart: Sequence[Any]) -> str:
    """Return the place of the table that says why values differ, or nothing. One of special values explains elements made of such values,
    or, where elements are not each made of one, results of what holds NaN."""
    node, = case.model.graph.node
    arguments = {**{w.name: numpy_helper.to_array(w) for w in case.model.graph.initializer}, **case.feeds}
    shapes = {**{name: x.shape for name, x in arguments.items()}, **dict(zip(node.output, [w.shape for w in wanted]))}
    given = [arguments[name] for name in node.input if name]
    for d in of_node(node, case.model.opset_import[0].version, shapes):
        if d.onnxruntime_differs and (not d.values or explains(case.op, given, apart)):
            return d.when
    return ""


def _far(a: Any, b: Any) -> Any:
    """Return where a remainder has a quotient, or arguments, that the table speaks of."""
    if a.dtype.kind == "f":
        return np.abs(a.astype(np.float64) / b) >= 2.0**48
    return np.maximum(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))) > 2.0**53


def _mean(*x: Any) -> Any:
    """Return where a mean of 16 bits is rounded otherwise, or has a sum beyond the range."""
    beyond = np.all([np.isfinite(v) for v in x], axis=0) & ~np.isfinite(sum(np.abs(v) for v in x))
    return np.full(x[0].shape, x[0].dtype == np.float16 and len(x) > 2) | beyond


def _products(x: Any) -> bool:
    """Return whether some factors alone are beyond the range, or below it."""
    sizes = np.log2(np.abs(x.astype(np.float64)))
    sizes = sizes[np.isfinite(sizes)]
    limits = np.finfo(x.dtype)
    return bool(sizes[sizes > 0].sum() > np.log2(float(limits.max)) or sizes[sizes < 0].sum() < np.log2(float(limits.tiny)))


SPECIAL: dict[str, Callable[..., Any]] = {  # operator -> where the arguments of an element are what the table speaks of
    "Clip": lambda x, *_: np.isinf(x), "Pow": lambda a, b: (a == -np.inf) | (a == 0) & np.signbit(a),
    "QuantizeLinear": lambda x, *_: np.isnan(x), "Mod": _far, "Gelu": lambda x: x == -np.inf, "Sin": lambda x: np.abs(x) > 1e5,
    "Sum": lambda *x: np.full(x[0].shape, x[0].dtype == np.float16 and len(x) > 2), "Mean": _mean,
    "Softplus": lambda x: x > 11, "Sign": np.isnan,
    "Cos": lambda x: np.abs(x) > 1e5, "Tan": lambda x: np.abs(x) > 1e4}


def explains(op: str, given: Sequence[Any], apart: Sequence[Any]) -> bool:
    """Return True where all elements that differ are made of the special values of the operator."""
    if op == "ReduceProd" and given[0].dtype.kind == "f":
        with np.errstate(all="ignore"):
            return bool(np.isnan(given[0]).any()) or _products(given[0])
    if op not in SPECIAL:
        return given[0].dtype.kind == "f" and bool(np.isnan(given[0]).any())
    with np.errstate(all="ignore"):
        return bool(np.all(SPECIAL[op](*(np.broadcast_to(x, apart[0].shape) if x.ndim else x for x in given)) | ~apart[0]))


def run_aoec(case: Case) -> list[Any]:
    """Return our values, in the order of the results."""
    graph, weights, _ = load(case.model, {}, "keep")
    artifact, _ = compile_untuned(graph, weights, "keep", machine.load(machine.DEFAULT))
    got = Runner(artifact).run(case.feeds)
    return [got[p.name] for p in artifact.outputs]


def run_onnxruntime(case: Case) -> list[Any]:
    """Return onnxruntime's values, without its optimiser, which would compute constants otherwise."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(case.feeds)))


def differ(got: Any, wanted: Any, case: Case) -> Any:
    """Return where elements differ by more than they may. Return None where shapes or dtypes do."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return None
    if wanted.dtype.kind != "f":
        return got != wanted
    relative, least = RELATIVE[wanted.dtype.name], LEAST[wanted.dtype.name]
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0) if case.sums else np.abs(b)
        near = np.abs(a - b) <= relative * size + least
        return ~((a == b) | (np.isnan(a) & np.isnan(b)) | near & np.isfinite(a) & np.isfinite(b))


def describe(got: Any, wanted: Any, wrong: Any, case: Case) -> str:
    """Return how the values differ, or nothing."""
    if wrong is None:
        return f"{got.dtype}{list(got.shape)} in place of {wanted.dtype}{list(wanted.shape)}"
    if not wrong.any():
        return ""
    places = np.argwhere(wrong)
    first = "; ".join(f"{list(map(int, at))} is {got[tuple(at)]!r}, onnxruntime {wanted[tuple(at)]!r}{_from(case, wanted, tuple(at))}"
                      for at in places[:3])
    return f"{len(places)} of {wanted.size} elements differ: {first}"


def _from(case: Case, wanted: Any, at: tuple[int, ...]) -> str:
    """Return what an element was made of, where all arguments have the shape of the result or spread over it."""
    try:
        given = [np.broadcast_to(x, wanted.shape)[at] for x in case.feeds.values()]
    except ValueError:
        return ""
    return f" of {', '.join(map(str, given))}"


def first_line(e: Exception) -> str:
    return (str(e).splitlines() or ["no message"])[0][:300]


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return counts, as lines."""
    counts = Counter(o.status for o in outcomes)
    operators = {o.case.op for o in outcomes}
    return [f"{len(outcomes):,} cases of {len(operators)} operators: " + ", ".join(f"{counts[s]:,} {s}" for s in STATUSES)]


def line(o: Outcome) -> str:
    """Return a case, as a line."""
    return f"{o.status:8} {o.seconds:6.2f} s  {o.case.said}  {o.why}"


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("-n", type=int, default=4000, help="how many cases")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", default="", help="only cases of this operator")
    p.add_argument("--list", action="store_true", help="a line a case")
    p.add_argument("--save", type=Path, help="write models that differ or fail to this folder")
    options = p.parse_args()
    outcomes = []
    for case in cases(options.n, options.seed, options.only):
        o = outcome(case)
        outcomes.append(o)
        if options.list or o.status in ("wrong", "fault"):
            print(line(o), flush=True)
        if options.save and o.status in ("wrong", "fault"):
            options.save.mkdir(parents=True, exist_ok=True)
            onnx.save(case.model, str(options.save / f"{case.op}_{len(outcomes)}.onnx"))
    print("\n".join(summary(outcomes)))
    return int(any(o.status in ("wrong", "fault") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
