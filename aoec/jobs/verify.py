"""Verify: a group's program on data, element by element against the reference; a compiled model against onnxruntime.

Two kinds of data. *Integers*: small ones (-2..2, weights -1..1). Every sum of products is then exact in fp32, in any order, and is
rounded once; so where all operators of a group are exact on integers, results must be equal. *Normal*: values of either sign
with a few large ones and the real weights, so that overflow happens where the reference has it too. With u the distance of
neighbouring numbers of the result's dtype relative to them (fp32 2^-23, fp16 2^-10, bf16 2^-7), an element may differ by

- u * |result|: two fp32 sums that differ in their last bits can lie on the two sides of a rounding boundary;
- 2 k 2^-24 * M for sums over k products, M the same sum over magnitudes: the bound of fp32 summation in two orders, which
  stays meaningful where products cancel;
- u * |sum| where more is done to such a sum in its group: the sum itself may lie on the two sides of a boundary, and what is added to it
  may leave little of it;
- the same bound for each reduction that sums in a vector group, and u * |value| for each value between nodes in bf16, which the reference
  rounds and a vector group keeps in fp32, as far as what follows carries them to the result: an addition may leave little of both;
- 8 u * nodes * (|result| + min(1, largest result)) where a vector group is not exact: it rounds after each of the instructions
  that make up a sigmoid, tanh or softmax, and the reference only once a node; u is here that of the group's roughest dtype;
- a step of a quantiser, as what follows carries it, where what is allowed before it reaches the middle between two steps (`halfway.py`);
- 8 u (|result| + largest result) for each operation of an operator of the user's own, which is rounded after each of them where the
  interpreted definition is rounded once; its data have no large values, which would drown what they are added to;
- the smallest subnormal, 2^-24 in fp16.

Where a group keeps values between its nodes wider than the graph has them, what follows may make much of little, as a norm of two numbers
that are nearly the same does: an element is right too if it is as near to the reference with these values in fp32.

What a cast makes of a number that its result does not hold is not defined (`undefined.py`).

Infinity counts as the first power of two beyond the dtype, so that what is within a rounding of overflow may be either.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from aoec.artifact.compiled import Artifact
from aoec.base.errors import AoecError, CheckError
from aoec.ir.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import Binary, Call, Cast, walk
from aoec.ir.parse import parse_meaning
from aoec.ir.program import Program
from aoec.jobs.execute import group_graph, run_model, run_program
from aoec.jobs.halfway import QUANTISING, either_way
from aoec.jobs.undefined import undefined, within_casts
from aoec.lowering.lower import operands
from aoec.ops.layout import stored_shape, to_logical, to_physical
from aoec.ops.run import NUMPY, REALS, evaluate, run_node

Arrays = Mapping[str, np.ndarray]
Places = tuple[slice | np.ndarray, ...]

SUMS = ("conv2d_packed", "matmul", "interpolate", "avg_pool", "global_avg_pool")  # sums of products in fp32, rounded once
EXACT = frozenset(("conv2d_packed", "matmul", "interpolate", "add", "sub", "mul", "maximum", "minimum", "abs", "relu", "clip", "max_pool",
                   "concat", "transpose", "to_nc1hwc0", "from_nc1hwc0", "to_nz", "from_nz", "reshape"))
ADDING = ("reduce_sum", "reduce_mean")  # sums whose terms may be anything, rounded once
CARRYING = ("add", "sub", "relu", "abs", "clip", "maximum", "minimum")  # a result is off by no more than what it is made of
SPACING = {"fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}
SMALLEST = {"fp32": 2.0**-149, "fp16": 2.0**-24, "bf16": 2.0**-133}
BEYOND = {"fp32": 2.0**128, "fp16": 2.0**16, "bf16": 2.0**128}
ROUNDING = 2.0**-24  # of one fp32 addition
LARGE, LARGE_COUNT = 3e4, 4
SHOWN = 3  # elements in a sentence


def verify_group(graph: Graph, group: Group, program: Program, bindings: Iterable[tuple[str, str]], weights: Arrays,
                 seed: int = 0) -> list[str]:
    """What is wrong with a group's program, in sentences; nothing where it does what the group's operators mean.

    `graph` is fused, `weights` are its constants as stored, `bindings` pairs tensors of the program with those of the graph.
    """
    inputs, outputs = operands(graph, group)
    alone, bound = group_graph(graph, group, inputs, outputs), tuple(bindings)
    kinds = ["normal"] if any(n.op not in EXACT for n in alone.nodes) else ["integers", "normal"]
    out: list[str] = []
    axes = read_axes(alone)
    for number, kind in enumerate(kinds):
        random = np.random.default_rng([seed, number])
        data = integers(inputs, alone.nodes, random) if kind == "integers" else normal(
            inputs, weights, random, large=not any(n.definition for n in alone.nodes))
        for name, places in zeros(alone.nodes, {t.name: t for t in inputs}):
            if kind == "integers" or name not in weights:  # a constant has its own
                data[name][places] = 0
        data = within_casts(alone, data, weights)
        data |= {t.name: random.integers(0, n, t.shape).astype(NUMPY[t.dtype]) for t in inputs if (n := axes.get(t.name))}
        out += compare(alone, program, bound, data, kind == "integers")
    return out


# ---------------------------------------------------------------- data

def integers(inputs: list[Tensor], nodes: tuple[OpNode, ...], random: np.random.Generator) -> dict[str, np.ndarray]:
    """Small integers for every input (logical arrays), in -1..1 for constants."""
    columns = bias_columns(nodes, {t.name: t for t in inputs})
    out = {}
    for t in inputs:
        limit = 1 if t.name in columns or t.layout == "ZN" else 2
        out[t.name] = random.integers(-limit, limit + 1, t.shape).astype(NUMPY[t.dtype])
    return out


def zeros(nodes: tuple[OpNode, ...], tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Places]]:
    """(tensor, where the graph keeps zeros in it): a bias behind its channels; a packed weight in rows behind those of the result's
    channels, and for channels that fill its image's blocks, where padding may read something else than 0."""
    for name, channels in bias_columns(nodes, tensors).items():
        yield name, (slice(channels, None),)
    for n in nodes:
        if n.op == "conv2d_packed" and n.inputs[1] in tensors and len(tensors[n.inputs[1]].shape) == 2:
            yield n.inputs[1], _filling(n, tensors)
            if isinstance(rows := n.attribute("channels"), int):
                yield n.inputs[1], (slice(rows, None),)


def read_axes(alone: Graph) -> dict[str, int]:
    """Tensor that says where another is read -> the length of that one's axis."""
    shapes = {t.name: t.shape for t in alone.tensors}
    return {n.inputs[1]: shapes[n.inputs[0]][n.attribute("axis")] for n in alone.nodes  # type: ignore[index]
            if n.op in ("gather", "gather_elements")}


def _filling(node: OpNode, tensors: Mapping[str, Tensor]) -> Places:
    """Where a packed weight of one block holds zeros for channels that its image has not."""
    kernel, c0 = node.attribute("kernel"), node.attribute("c0")
    assert isinstance(kernel, tuple) and isinstance(c0, int)
    turned = bool(node.attribute("trans_b", 0))
    k = np.arange(tensors[node.inputs[1]].shape[1 if turned else 0])
    absent = k // int(prod(kernel) * c0) * c0 + k % c0 >= tensors[node.inputs[0]].shape[1]
    return (slice(None), absent) if turned else (absent,)


def bias_columns(nodes: tuple[OpNode, ...], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Bias -> elements of it that belong to an output channel; what is stored behind them is padding."""
    out = {}
    for n in nodes:
        if n.op in ("conv2d_packed", "matmul") and len(n.inputs) > 2 and n.inputs[2] in tensors:
            shape, channels = tensors[n.inputs[1]].shape, n.attribute("channels")  # these where the weight is W[co, k]
            own = shape[-1] * (shape[0] if n.op == "conv2d_packed" and len(shape) == 3 else 1)
            out[n.inputs[2]] = channels if isinstance(channels, int) else own
    return out


def normal(inputs: list[Tensor], weights: Arrays, random: np.random.Generator, large: bool = True) -> dict[str, np.ndarray]:
    """Normal values, with a few `large` ones, for what is computed, the real values of constants."""
    out = {}
    for t in inputs:
        if t.name in weights:
            out[t.name] = to_logical(weights[t.name], t)
            continue
        if t.dtype == "int8":  # quantised: all of its numbers
            out[t.name] = random.integers(-128, 128, t.shape, np.int8)
            continue
        array = random.standard_normal(t.shape).astype(np.float32)
        if large and t.dtype in REALS and array.size:
            places = random.integers(0, array.size, LARGE_COUNT)
            array.reshape(-1)[places] = random.choice([-LARGE, LARGE], LARGE_COUNT)
        out[t.name] = array.astype(NUMPY[t.dtype])
    return out


# ---------------------------------------------------------------- comparison

def compare(alone: Graph, program: Program, bindings: tuple[tuple[str, str], ...], data: Arrays, exact: bool) -> list[str]:
    """Sentences about each result of the program that differs from the reference by more than it may."""
    tensors = {t.name: t for t in alone.tensors}
    stored = {name: to_physical(x, tensors[name]) for name, x in data.items()}
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
        within = np.where(undefined(alone, {**data, **wanted}, name), np.inf, allowed.get(name, np.zeros(tensors[name].shape)))
        said = differences(alone.name, tensors[name], results[name], wanted[name], within, "integers" if exact else "normal data")
        if said and (wide := kept_wide(alone)) != alone:
            near = nearer(to_logical(results[name], tensors[name]), wanted[name], evaluate(wide, data, {}, every=True)[name])
            said = differences(alone.name, tensors[name], results[name], near, within, "integers" if exact else "normal data")
        out += said
    return out


def kept_wide(alone: Graph) -> Graph:
    """A vector group with the reals between its nodes in fp32; itself where it begins with a sum of the cube's, which is rounded."""
    between = {o for n in alone.nodes for o in n.outputs} - set(alone.outputs)
    if alone.nodes[0].op in SUMS:
        return alone
    return replace(alone, tensors=tuple(replace(t, dtype="fp32") if t.name in between and t.dtype in REALS else t for t in alone.tensors))


def nearer(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of two references the one that is nearer to a result, element by element."""
    wide = [x.astype(np.float64) for x in (got, a, b)]
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(wide[0] - wide[2]) < np.abs(wide[0] - wide[1]), b, a)


def tolerance(alone: Graph, data: Arrays, wanted: Arrays, t: Tensor) -> np.ndarray:
    """How much each element of a result may differ: see the head of this file. `wanted`: what the reference makes of each tensor."""
    size, u = sizes(wanted[t.name], t.dtype), SPACING.get(t.dtype, 0.0)
    first = alone.nodes[0]
    allowed: np.ndarray = u * size + SMALLEST.get(t.dtype, 0.0)
    if first.op in SUMS and data[first.inputs[0]].dtype.kind not in "iu":  # sums of whole numbers are exact
        total = next(x for x in alone.tensors if x.name == first.outputs[0])
        rounded = SPACING.get(total.dtype, 0.0) * sizes(wanted[total.name], total.dtype) if total.name != t.name else 0.0
        allowed = allowed + 2 * summed(first, alone) * ROUNDING * magnitude(first, data) + rounded
    if any(n.op not in EXACT and n.op not in SUMS for n in alone.nodes):
        made = {o for n in alone.nodes for o in n.outputs}
        rough = max(SPACING.get(x.dtype, 0.0) for x in alone.tensors if x.name in made) if t.dtype in REALS else u
        allowed = allowed + 8 * rough * len(alone.nodes) * (size + min(1.0, float(size.max(initial=0.0))))
    if t.dtype == "bf16" or any(n.op in ADDING for n in alone.nodes) and t.dtype in REALS:
        allowed = allowed + carried(alone, {**data, **wanted}, t)
    if any(n.op in QUANTISING for n in alone.nodes):
        allowed = allowed + either_way(alone, {**data, **wanted}, t, lambda part, made: tolerance(part, data, wanted, made))
    own = sum(operations(n) for n in alone.nodes)
    return allowed + 8 * u * own * (size + float(size.max(initial=0.0))) if own else allowed


def carried(alone: Graph, values: Arrays, t: Tensor) -> np.ndarray:
    """What roundings of values between nodes to bf16, and of sums in another order, may come to in a result; through operators that are
    not listed, nothing."""
    errors: dict[str, np.ndarray] = {}
    dtypes = {x.name: x.dtype for x in alone.tensors}
    for n in alone.nodes:
        of = [(sizes(values[i], "bf16"), errors.get(i, np.zeros(()))) for i in n.inputs if i]
        if n.op == "mul":
            (a, error_a), (b, error_b) = of
            error = a * error_b + b * error_a
        elif n.op in ADDING:
            ((terms, off),) = of
            (error,) = run_node(n, [np.broadcast_to(off, terms.shape)])
            error = error + 2 * summed(n, alone) * ROUNDING * magnitude(n, values) * (dtypes[n.inputs[0]] in REALS)
        else:
            error = sum((e for _, e in of), np.zeros(())) if n.op in CARRYING else np.zeros(())
        if n.outputs[0] == t.name:
            return error
        errors[n.outputs[0]] = error + (SPACING["bf16"] * sizes(values[n.outputs[0]], "bf16") if dtypes[n.outputs[0]] == "bf16" else 0.0)
    return np.zeros(())


def operations(node: OpNode) -> int:
    """How often a node of the user's own operator rounds; 0 of any other."""
    if not node.definition:
        return 0
    values = [v for s in parse_meaning(node.definition).statements for v in (s.value, s.init) if v is not None]
    return sum(isinstance(e, (Binary, Call, Cast)) for v in values for e in walk(v)) + 1


def summed(node: OpNode, graph: Graph) -> int:
    """How many products each sum of the node has."""
    shapes = [next(t.shape for t in graph.tensors if t.name == i) for i in node.inputs if i]
    if node.op in ("conv2d_packed", "matmul"):
        return shapes[1][-1 if node.attribute("trans_b", 0) else -2] + 1
    if node.op == "interpolate":
        return shapes[1][-1] + 1
    if node.op in ADDING:
        axes = node.attribute("axes")
        assert isinstance(axes, tuple)
        return prod(shapes[0][int(a)] for a in axes) + 1
    kernel = node.attribute("kernel")
    return prod(kernel) + 1 if isinstance(kernel, tuple) else prod(shapes[0][2:]) + 1  # type: ignore[return-value]


def magnitude(node: OpNode, data: Arrays) -> np.ndarray:
    """The node's sums over magnitudes, in fp32 and never infinite."""
    (out,) = run_node(node, [np.abs(data[i]) if i else None for i in node.inputs])
    return np.nan_to_num(out.astype(np.float64), posinf=BEYOND["fp32"])


def sizes(x: np.ndarray, dtype: str) -> np.ndarray:
    """The magnitudes as float64, infinities as in `finite`, 0 for what is no number."""
    return np.nan_to_num(np.abs(finite(x, dtype)), nan=0.0)


def finite(x: np.ndarray, dtype: str) -> np.ndarray:
    """The values as float64, infinities as the first power of two beyond the dtype."""
    wide = x.astype(np.float64)
    return np.where(np.isinf(wide), np.copysign(BEYOND.get(dtype, 0.0), wide), wide)


def differences(group: str, t: Tensor, stored: np.ndarray, wanted: np.ndarray, allowed: np.ndarray, data: str) -> list[str]:
    """Sentences: elements beyond what is allowed, and padding that is not zero."""
    got = to_logical(stored, t)
    a, b = finite(got, t.dtype), finite(wanted, t.dtype)
    wrong = np.argwhere(~((np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b))))
    out: list[str] = []
    if len(wrong):
        first = "; ".join(f"{t.name}{list(map(int, i))} is {got[tuple(i)]:.9g} and should be {wanted[tuple(i)]:.9g}"
                          + (f" within {allowed[tuple(i)]:.3g}" if allowed[tuple(i)] else "") for i in wrong[:SHOWN])
        out.append(f"group {group}: {len(wrong):,} of {wanted.size:,} elements differ from the reference on {data}: {first}")
    elif t.layout != "ND" and not np.array_equal(stored != 0, to_physical(got, t) != 0):
        out.append(f"group {group}: {t.name} has other values than zero in its padding ({t.layout} {list(stored_shape(t))}) on {data}")
    return out


# ---------------------------------------------------------------- whole models

@dataclass(frozen=True)
class Agreement:
    """How near an output is to the reference: max|a - b| / max|b|, and in how many rows the largest element is the same one. Places,
    counts and truths are `counted`, a row each: what share of them differs, of which one may be far from the other and as good, as the
    places of two elements that are nearly the greatest."""

    reference: str
    relative_error: float
    same_top1: int
    rows: int
    counted: bool = False
    mean_error: float = 0.0  # root mean square of a - b over that of b: a few steps of a quantiser hardly move it

    def said(self, how: str) -> str:
        """The agreement in words, and how it was found."""
        if self.counted:
            return f"differs in {self.rows - self.same_top1:,} of {self.rows:,} whole numbers from {self.reference} ({how})"
        return f"is within {self.relative_error:.1e} of {self.reference} (max|a-b| / max|b|, {how})"

    def differs(self, how: str) -> str:
        """The same of what is too far away."""
        return self.said(how) if self.counted else self.said(how).replace("is within", "differs by", 1).replace(" of ", " from ", 1)


def verify_model(artifact: Artifact, graph: Graph, weights: Arrays, feeds: Arrays, model_path: str = "") -> dict[str, Agreement]:
    """Output -> how near the compiled model is to onnxruntime, where it is installed and `model_path` given, else to `graph`'s references.

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
    """How near `got` is to `wanted`; CheckError where they are of different shapes. What overflows counts as the largest number of the
    wanted type, so that it may fall on either side of it; NaN is near NaN alone. Whole numbers of four bytes or more, and truths, are
    counted; those of one or two stand for reals."""
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
    return Agreement(reference, error / scale if scale else error, int(top.sum()), top.size, mean_error=mean / size if size else mean)


def _onnxruntime(model_path: str, feeds: Arrays) -> tuple[dict[str, np.ndarray] | None, str]:
    """(the outputs that onnxruntime gives, ""), or (None, why not): it is not installed, or does not take the model (a newer version of the
    format than it knows, an operator that it lacks): what reads a model here and what onnxruntime reads need not be of one age."""
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
