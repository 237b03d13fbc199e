"""Verify: a group's program on data, element by element against the reference; a compiled model against onnxruntime.

There are two kinds of data. *Integers* are small ones (-2..2, weights -1..1). Every sum of products is then exact in fp32, in any order,
and is rounded once. So results must be equal where all operators of a group are exact on integers. *Normal* data are values of either sign
with a few large ones, rows of special ones (`sown.py`) and the real weights. So overflow happens where the reference has it too.
`allowed.py` says how much an element may then differ.

A group may keep values between its nodes wider than the graph has them. Later operators may amplify the small difference, as a norm of two
nearly equal numbers does. So an element is also right if it is as near to the reference with these values in fp32.

The result of a cast is not defined where its dtype cannot hold the number (`undefined.py`).
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from aoec.artifact.compiled import Artifact
from aoec.base.errors import AoecError, CheckError
from aoec.ir.graph.graph import Graph, Group, Tensor
from aoec.ir.program import Program
from aoec.jobs.run.execute import group_graph, run_model, run_program
from aoec.jobs.verify.allowed import EXACT, SUMS, finite, tolerance
from aoec.jobs.verify.sown import few_rows, fill_padding, integers, may_fill, normal, read_axes, sow, zeros
from aoec.jobs.verify.undefined import undefined_elements, within_casts
from aoec.lowering.lower.access import main_node
from aoec.lowering.lower.lower import operands
from aoec.ops.run import NUMPY, REALS, evaluate
from aoec.ops.words.layout import stored_shape, to_logical, to_physical

Arrays = Mapping[str, np.ndarray]

SHOWN = 3  # elements in a sentence


def verify_group(graph: Graph, group: Group, program: Program, bindings: Iterable[tuple[str, str]], weights: Arrays,
                 seed: int = 0) -> list[str]:
    """Return what is wrong with a group's program, in sentences; nothing where it does what the group's operators mean.

    `graph` is fused, `weights` are its constants as stored, `bindings` pairs tensors of the program with those of the graph.
    """
    inputs, outputs = operands(graph, group)
    alone, bound = group_graph(graph, group, inputs, outputs), tuple(bindings)
    kinds = ["normal"] if any(n.op not in EXACT for n in alone.nodes) else ["integers", "normal"]
    kinds += ["special"] if few_rows(inputs, weights) else []
    out: list[str] = []
    axes = read_axes(alone)
    for number, kind in enumerate(kinds):
        random = np.random.default_rng([seed, number])
        data = integers(inputs, alone.nodes, random) if kind == "integers" else normal(
            inputs, weights, random, large=kind == "normal" and not any(n.definition for n in alone.nodes))
        if kind == "special" or kind == "normal" and "special" not in kinds:
            sow(alone, inputs, weights, data, random)
        for name, places in zeros(alone.nodes, {t.name: t for t in inputs}):
            if kind == "integers" or name not in weights:  # a constant has its own
                data[name][places] = 0
        data = within_casts(alone, data, weights)
        data |= {t.name: random.integers(0, n, t.shape).astype(NUMPY[t.dtype]) for t in inputs if (n := axes.get(t.name))}
        out += compare(alone, program, bound, data, kind == "integers")
    return out


# ---------------------------------------------------------------- comparison

def compare(alone: Graph, program: Program, bindings: tuple[tuple[str, str], ...], data: Arrays, exact: bool) -> list[str]:
    """Return sentences about each result of the program that differs from the reference by more than it may."""
    tensors = {t.name: t for t in alone.tensors}
    stored = {name: fill_padding(to_physical(x, tensors[name]), tensors[name]) for name, x in data.items()}
    try:
        results = run_program(program, bindings, tensors, stored)
    except AoecError as e:
        return [f"group {alone.name}: its program cannot run: {e}"]
    wanted = evaluate(alone, data, {}, every=True)
    allowed = {} if exact else {name: tolerance(alone, data, wanted, tensors[name]) for name in alone.outputs}
    out: list[str] = []
    for name in alone.outputs:
        if name not in results:
            out.append(f"group {alone.name}: its program does not write {name}")
            continue
        anything = undefined_elements(alone, {**data, **wanted}, name) | beyond(alone, wanted, name)
        within = np.where(anything, np.inf, allowed.get(name, np.zeros(tensors[name].shape)))
        said = differences(alone.name, tensors[name], results[name], wanted[name], within, "integers" if exact else "normal data")
        if said and (wide := kept_wide(alone)) != alone:
            near = nearer(to_logical(results[name], tensors[name]), wanted[name], evaluate(wide, data, {}, every=True)[name])
            said = differences(alone.name, tensors[name], results[name], near, within, "integers" if exact else "normal data")
        out += said
    return out


def beyond(alone: Graph, wanted: Arrays, name: str) -> np.ndarray:
    """Return for each element of a result whether a value between the nodes of its group overflows its dtype there. A program that keeps
    that value wider computes another result."""
    between = [wanted[o] for n in alone.nodes for o in n.outputs if o not in alone.outputs and wanted[o].dtype.kind not in "iub"]
    shape = wanted[name].shape
    return np.logical_or.reduce([np.zeros(shape, bool), *(np.isinf(x.astype(np.float32)) for x in between if x.shape == shape)])


def kept_wide(alone: Graph) -> Graph:
    """Return a vector group with the reals between its nodes in fp32. Return the group itself where it begins with a sum of the cube unit,
    which is rounded."""
    between = {o for n in alone.nodes for o in n.outputs} - set(alone.outputs)
    if main_node(alone.nodes).op in SUMS:
        return alone
    return replace(alone, tensors=tuple(replace(t, dtype="fp32") if t.name in between and t.dtype in REALS else t for t in alone.tensors))


def nearer(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return, element by element, the one of two references that is nearer to a result. Where only one reference is NaN, return that one if
    the result is NaN, else the other."""
    wide = [x.astype(np.float64) for x in (got, a, b)]
    with np.errstate(invalid="ignore"):
        near = np.abs(wide[0] - wide[2]) < np.abs(wide[0] - wide[1])
    alike = np.isnan(wide[0]) == np.isnan(wide[2])
    return np.where(near | alike & (np.isnan(wide[0]) != np.isnan(wide[1])), b, a)


def differences(group: str, t: Tensor, stored: np.ndarray, wanted: np.ndarray, allowed: np.ndarray, data: str) -> list[str]:
    """Return sentences: elements beyond what is allowed, and padding that is not zero where it should be."""
    got = to_logical(stored, t)
    a, b = finite(got, t.dtype), finite(wanted, t.dtype)
    wrong = np.argwhere(~((np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b)) | np.isinf(allowed)))
    out: list[str] = []
    if len(wrong):
        first = "; ".join(f"{t.name}{list(map(int, i))} is {got[tuple(i)]:.9g} and should be {wanted[tuple(i)]:.9g}"
                          + (f" within {allowed[tuple(i)]:.3g}" if allowed[tuple(i)] else "") for i in wrong[:SHOWN])
        out.append(f"group {group}: {len(wrong):,} of {wanted.size:,} elements differ from the reference on {data}: {first}")
    elif t.layout != "ND" and not may_fill(t) and not np.array_equal(stored != 0, to_physical(got, t) != 0):
        out.append(f"group {group}: {t.name} has other values than zero in its padding ({t.layout} {list(stored_shape(t))}) on {data}")
    return out


# ---------------------------------------------------------------- whole models

@dataclass(frozen=True)
class Agreement:
    """How near an output is to the reference: max|a - b| / max|b|, and in how many rows the largest element is the same. Indices, counts
    and booleans are `counted`, one a row, by the share of them that differs. One of them may be far from the other and as good, as the
    indices of two elements that are both nearly the greatest."""

    reference: str
    relative_error: float
    same_top1: int
    rows: int
    counted: bool = False
    mean_error: float = 0.0  # root mean square of a - b over that of b: a few steps of a quantiser hardly move it
    largest: float = 0.0  # max|b|

    def describe(self, how: str) -> str:
        """Return the agreement in words, and how it was found."""
        if self.counted:
            return f"differs in {self.rows - self.same_top1:,} of {self.rows:,} whole numbers from {self.reference} ({how})"
        return f"is within {self.relative_error:.1e} of {self.reference} (max|a-b| / max|b|, {how})"

    def differs(self, how: str) -> str:
        """Return the same of what is too far away."""
        return self.describe(how) if self.counted else self.describe(how).replace("is within", "differs by", 1).replace(" of ", " from ", 1)


def verify_model(artifact: Artifact, graph: Graph, weights: Arrays, feeds: Arrays, model_path: str = "") -> dict[str, Agreement]:
    """Return output -> how near the compiled model is to onnxruntime, where it is installed and `model_path` given, else to `graph`'s
    references.

    `graph` (before or after fusion, with its own `weights`) and the artifact are given the same feeds, by the model's input names.
    """
    got = run_model(artifact, feeds)
    reference, why = _onnxruntime(model_path, feeds)
    wanted = "onnxruntime"
    if reference is None:
        values = evaluate(graph, {p.tensor: feeds[p.name] for p in artifact.inputs}, weights)
        reference, wanted = {p.name: values[p.tensor] for p in artifact.outputs}, f"the operators' references{why}"
    numbers = {name: x for name, x in got.items() if isinstance(x, np.ndarray) and x.dtype.kind in "fiub"}
    return {name: agreement(x, reference[name], wanted) for name, x in numbers.items()}


def agreement(got: np.ndarray, wanted: np.ndarray, reference: str) -> Agreement:
    """Return how near `got` is to `wanted`. Raise CheckError where their shapes differ. An overflow counts as the largest number of the
    wanted type, so that it may fall on either side of it. NaN is near only NaN. Integers of four bytes or more, and booleans, are counted;
    integers of one or two bytes stand for reals."""
    if got.shape != wanted.shape:
        raise CheckError(f"an output has shape {list(got.shape)}, and {reference} gives {list(wanted.shape)}")
    if wanted.dtype.kind == "b" or wanted.dtype.kind in "iu" and wanted.dtype.itemsize >= 4:
        same = int((got == wanted).sum())
        return Agreement(reference, 1.0 - same / got.size if got.size else 0.0, same, got.size, counted=True)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if wanted.dtype.kind == "f":
        most = float(np.finfo(wanted.dtype).max)
        a, b = np.clip(a, -most, most), np.clip(b, -most, most)
    scale = float(np.nan_to_num(np.abs(b)).max(initial=0.0))
    apart = np.where(np.isnan(a) != np.isnan(b), np.inf, np.nan_to_num(np.abs(a - b)))
    error = float(apart.max(initial=0.0))
    top = (a.argmax(-1) == b.argmax(-1)) if a.ndim and a.shape[-1] else np.ones(())
    mean = float(np.sqrt(np.mean(apart**2))) if a.size else 0.0
    size = float(np.sqrt(np.mean(np.nan_to_num(b)**2))) if b.size else 0.0
    return Agreement(reference, error / scale if scale else error, int(top.sum()), top.size, mean_error=mean / size if size else mean,
                     largest=scale)


def _onnxruntime(model_path: str, feeds: Arrays) -> tuple[dict[str, np.ndarray] | None, str]:
    """Return (the outputs that onnxruntime gives, ""), or (None, why not). It may not be installed, or may not take the model, which may
    have a newer version of the format or an operator that it lacks. The ONNX reader here and onnxruntime may be of different ages."""
    if not model_path:
        return None, ""
    try:
        import onnxruntime as ort
    except ImportError:
        return None, ", as onnxruntime is not installed"
    ort.disable_telemetry_events()  # nothing that runs here tells anybody
    # its optimiser fails on some quantised models that it runs well without it
    for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4  # fatal: what it cannot do is said by us, once
        # products of uint8 and int8 are summed in pairs of 16 bits, which saturate, on processors without VNNI: not with this
        options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            session = ort.InferenceSession(model_path, options, providers=["CPUExecutionProvider"])
            names = [o.name for o in session.get_outputs()]
            return dict(zip(names, session.run(names, dict(feeds)))), ""
        except Exception:  # its errors have no class in common but this one
            continue
    return None, ", as onnxruntime does not run this model"
