"""Reads an ONNX model and checks it, with every dimension bound and every shape inferred, or says in one sentence why this fails."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, Union

import onnx
from google.protobuf.message import DecodeError
from onnx import inliner, version_converter

from aoec.base.errors import AoecError, CheckError, ParseError, UnsupportedError
from aoec.base.files.files import check_file, read_bytes
from aoec.frontend.own.own import infer_types, is_own
from aoec.frontend.read.bodies import inline_bodies
from aoec.frontend.read.bounds import check_functions, every_node
from aoec.frontend.read.inference import InferenceError, infer_shapes
from aoec.frontend.read.sparse import make_dense
from aoec.frontend.read.versions import domain, full_name, opset, opsets
from aoec.frontend.read.weights import Arrays, check, take
from aoec.frontend.translate import ceil_pools
from aoec.frontend.translate.contrib import spell_out
from aoec.frontend.translate.optimiser_functions import add_functions
from aoec.ops.own import NO_DEFINITIONS, Definitions

Shapes = Mapping[str, Sequence[int]]
LIMIT_BYTES = 2 << 30  # protobuf's own bound on one message
CONTROL_FLOW = frozenset(("If", "Loop", "Scan"))  # a loop may be given one shape and carry another on, which inference holds against it
MOST_SHOWN, MOST_LISTED = 100, 60  # characters of an operator that a message names; operators that it lists
OLDEST_OPSET = 7  # NumPy broadcasting begins here; older models are converted
IMAGE_SIZE, OTHER_SIZE = 224, 128  # what a suggestion puts for a free dimension of an image, of anything else
AXIS, MOST_AXIS = re.compile(r"(^|_)ax[ei]s$"), 1 << 16  # attributes that are axes; far above any rank
# operators of the training artifacts of ONNX Runtime
ARTIFACT = r"com\.microsoft\.(\w+Grad|InPlaceAccumulator\w*|SoftmaxCrossEntropyLossInternal|\w*OptimizerV?\d*)$"
NO_RANK = -1  # in place of axes
FREE = -1  # in a shape that is given: as the model says, or as a dimension of the same name is elsewhere
T = TypeVar("T")


def read(model: Union[str, Path, onnx.ModelProto], input_shapes: Shapes, known: frozenset[str], notices: list[str],
         definitions: Definitions = NO_DEFINITIONS) -> tuple[onnx.ModelProto, Arrays]:
    """Return (the model, the large constants by name, whose data the model does not hold).

    In the model, local and schema functions are inlined, except those in `known` and `definitions`. Dimensions are bound and shapes are
    inferred. Raise ParseError for a file that is not ONNX or an invalid graph, and BackendError for one that cannot be read. Raise
    UnsupportedError for unbound dimensions and unknown operators.
    """
    name = str(model) if isinstance(model, (str, Path)) else model.graph.name or "model"
    proto, arrays = _run_checked(name, lambda: take(*_own(model)))
    return _run_checked(name, lambda: _prepare(name, proto, arrays, input_shapes, known, notices, definitions)), arrays


def _own(model: Union[str, Path, onnx.ModelProto]) -> tuple[onnx.ModelProto, Path | None]:
    """Return (a model to be changed, its file)."""
    if not isinstance(model, onnx.ModelProto):
        return _parse_file(Path(model)), Path(model)
    check_functions(model.graph.name or "model", model)
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    return proto, None


def _parse_file(path: Path) -> onnx.ModelProto:
    size_bytes = check_file(path, "a model", pipes=True)
    if size_bytes > LIMIT_BYTES:
        raise UnsupportedError(f"{path} has {size_bytes:,} bytes; ONNX files of up to {LIMIT_BYTES:,} are read")
    data = read_bytes(path, size_bytes or LIMIT_BYTES)  # of a pipe the size is not known before
    if not data:
        raise ParseError("the file is empty, and an ONNX model is wanted here", source=str(path))
    if path.suffix == ".aoec" and data[:2] == b"PK":
        raise ParseError("this is a compiled model, and an ONNX model is wanted here: aoec run runs a compiled one, aoec export makes an "
                         "ONNX model of it", source=str(path))
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as e:
        why = f"its {len(data):,} bytes do not parse as one; is the file truncated or of another kind?"
        raise ParseError(f"this is not a whole ONNX model: {why}", source=str(path)) from e
    if not proto.HasField("graph") or (not proto.opset_import and not proto.ir_version):
        raise ParseError(f"this is not an ONNX model: its {len(data):,} bytes hold no graph", source=str(path))
    check_functions(str(path), proto)
    return proto


def open_model(model: Union[str, Path, onnx.ModelProto]) -> onnx.ModelProto:
    """Read the model as it stands, without data that lie in other files: for its inputs and outputs."""
    return model if isinstance(model, onnx.ModelProto) else _parse_file(Path(model))


def _run_checked(name: str, step: Callable[[], T]) -> T:
    """Return the result of `step`. Whatever onnx raises on a bad model becomes one sentence."""
    try:
        return step()
    except (AoecError, KeyboardInterrupt):
        raise
    except MemoryError as e:
        raise UnsupportedError(f"{name}: the model does not fit in memory") from e
    except Exception as e:  # onnx raises RuntimeError, ValueError, TypeError, ValidationError, InferenceError, ... without a common root
        raise ParseError(f"the ONNX graph is invalid: {_sentence(e)}", source=name) from e


def _sentence(e: Exception) -> str:
    """Return the first line of what an exception says, and those behind it where it ends in a colon, up to an empty one."""
    lines = [" ".join(line.split()) for line in str(e).strip().partition("\n\n")[0].splitlines()] or [type(e).__name__]
    text = " ".join(lines) if lines[0].endswith(":") else lines[0]
    return text if len(text) <= 300 else text[:300] + " ..."


def _prepare(name: str, proto: onnx.ModelProto, arrays: Arrays, input_shapes: Shapes, known: frozenset[str], notices: list[str],
             definitions: Definitions) -> onnx.ModelProto:
    if not proto.graph.node:
        raise ParseError("the graph has no nodes", source=name)
    for f in [f for f in proto.functions if f.name in definitions]:  # the user's own stands for the model's
        proto.functions.remove(f)
    add_functions(name, proto, opset(proto))
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    make_dense(proto.graph)
    spell_out(proto, opset(proto))
    _refuse_unknown(name, proto, definitions)
    _check_flags(name, proto)
    _check_types(name, proto)
    bind(name, proto.graph, input_shapes, notices)  # before the checker, which wants to see the rank of each input
    for o in proto.graph.output:
        if o.type.HasField("tensor_type"):
            o.type.tensor_type.shape.SetInParent()  # the checker wants one there, and exporters leave it out at times
    if opset(proto) < OLDEST_OPSET:
        check(proto, arrays)
        proto = _modern(name, proto)
    check(proto, arrays)
    _forget_shapes(proto.graph)
    return infer_types(inline_bodies(proto, known, definitions, _infer), definitions, _infer)


def _check_types(name: str, proto: onnx.ModelProto) -> None:
    """Give results of the model that state no type the one that inference finds for them. Raise ParseError where inference finds none, and
    for an input without a type."""
    for i in graph_inputs(proto.graph):
        if i.type.WhichOneof("value") is None:
            raise ParseError(f"the ONNX graph is invalid: its input {i.name} states no type", source=name)
    if not any(o.type.WhichOneof("value") is None for o in proto.graph.output):
        return
    made = {o.name: o.type for o in infer_shapes(proto).graph.output}
    for o in proto.graph.output:
        o.type.CopyFrom(made.get(o.name, o.type))
        if o.type.WhichOneof("value") is None:
            raise ParseError(f"the ONNX graph is invalid: its output {o.name} states no type, and none follows from the graph", source=name)


def _forget_shapes(graph: onnx.GraphProto) -> None:
    """Remove the stated shapes of what nodes make, so that they are inferred anew: they may be stated for other input shapes. Remove all
    that a model states of a constant, as PyTorch's exporter does. An entry without a shape would hide the constant's own."""
    constants = {w.name for w in graph.initializer}
    kept = [i for i in graph.value_info if i.name not in constants]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    for info in (*graph.output, *graph.value_info):
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def _refuse_unknown(name: str, proto: onnx.ModelProto, definitions: Definitions) -> None:
    version, newest = opset(proto), onnx.defs.onnx_opset_version()
    if version > newest:
        raise UnsupportedError(f"{name}: the model asks for operator set {version}, and the onnx package here knows {newest}; upgrade onnx")
    known = opsets(proto)
    unknown = Counter(full_name(n) for n in proto.graph.node if not _has_schema(n, known) and not is_own(n, definitions))
    own = f" (given: {', '.join(sorted(definitions))})" if definitions else ""
    artifact = any(re.search(ARTIFACT, word) for word in unknown)
    refuse(name, unknown, "neither ONNX nor aoec defines them; export the model with standard operators, or define them in a file for --ops"
           + own + ("; this is a training artifact: aoec makes a training graph itself, of the inference model, with --loss"
                    if artifact else ""))


def refuse(name: str, operators: Mapping[str, int], why: str) -> None:
    """Raise UnsupportedError that lists all operators with how often each occurs. Do nothing where there are none."""
    if operators:
        each = [f"{op[:MOST_SHOWN]} ({count} node{'s' * (count > 1)})" for op, count in sorted(operators.items())]
        listed = ", ".join(each[:MOST_LISTED]) + (f" and {len(each) - MOST_LISTED} more" if len(each) > MOST_LISTED else "")
        raise UnsupportedError(f"{name}: unsupported operators: {listed}: {why}")


def _check_flags(name: str, proto: onnx.ModelProto) -> None:
    """Raise ParseError for a `keepdims` that is neither 0 nor 1, which one program takes for yes and another for no, and for two
    results of one name, of which the checker says nothing."""
    if twice := next((o for o, count in Counter(o.name for o in proto.graph.output).items() if count > 1), None):
        raise ParseError(f"the ONNX graph is invalid: its output {twice} is listed more than once", source=name)
    for n in proto.graph.node:
        for a in n.attribute:
            if a.name == "keepdims" and a.i not in (0, 1):
                raise ParseError(f"the ONNX graph is invalid: node {n.name or n.op_type}: keepdims is {a.i}, neither 0 nor 1", source=name)
    for n in every_node(proto.graph.node):  # inference takes the lower 32 bits: of 2^62 it makes axis 0
        if wild := [(a.name, v) for a in n.attribute if AXIS.search(a.name) for v in (a.i, *a.ints) if abs(v) > MOST_AXIS]:
            raise ParseError(f"the ONNX graph is invalid: node {n.name or n.op_type}: {wild[0][0]} cannot be {wild[0][1]}", source=name)


def _has_schema(n: onnx.NodeProto, known: Mapping[str, int]) -> bool:
    return domain(n) in known and bool(onnx.defs.has(n.op_type, known[domain(n)], domain(n)))


def _modern(name: str, proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        converted = version_converter.convert_version(proto, OLDEST_OPSET)
        _spread_slopes(converted)
        return converted
    except Exception as e:  # the converter raises RuntimeError and others
        raise UnsupportedError(f"{name}: operator set {opset(proto)} could not be converted to {OLDEST_OPSET}: {_sentence(e)}") from e


def _spread_slopes(proto: onnx.ModelProto) -> None:
    """Give slopes of PRelu that are one for each channel a dimension for each axis behind the channels, as version 7 requires."""
    known = infer_shapes(proto).graph
    ranks = {i.name: len(_dims(i)) for i in (*known.input, *known.value_info)} | {w.name: len(w.dims) for w in known.initializer}
    for at, n in reversed(list(enumerate(proto.graph.node))):
        if n.op_type == "PRelu" and ranks.get(n.input[1]) == 1 and ranks.get(n.input[0], 0) > 2:
            slopes = f"{n.output[0]}_slopes"
            spread = onnx.helper.make_node("Unsqueeze", [n.input[1]], [slopes], axes=list(range(1, ranks[n.input[0]] - 1)))
            n.input[1] = slopes
            proto.graph.node.insert(at, spread)


def _infer(proto: onnx.ModelProto) -> onnx.ModelProto:
    return ceil_pools.infer_restated(proto, _strictly)


def _strictly(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except InferenceError as e:
        if not set(re.findall(r"\(op_type:(\w+)", str(e))) <= CONTROL_FLOW:
            raise
        return infer_shapes(proto, check_type=True, data_prop=True)


# ---------------------------------------------------------------- dimensions

def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that a user gives: those without an initialiser."""
    constants = {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in constants]


def free_inputs(graph: onnx.GraphProto) -> list[str]:
    """Return the inputs whose shapes the model leaves open, in whole or in part."""
    return [i.name for i in graph_inputs(graph) if free_axes(i)]


def bind(name: str, graph: onnx.GraphProto, input_shapes: Shapes, notices: list[str]) -> None:
    """Give free dimensions the values of `input_shapes`. Give a batch dimension 1 if no other dimension is free."""
    inputs = graph_inputs(graph)
    strangers = [i for i in input_shapes if i not in {x.name for x in inputs}]
    if strangers:
        raise CheckError(f"--input-shape names {', '.join(strangers)}; the inputs of {name} are {', '.join(i.name for i in inputs)}")
    symbols: dict[str, int] = {}
    for i in inputs:
        if i.name in input_shapes:
            _bind_one(i, tuple(input_shapes[i.name]), symbols)
    for i in inputs:
        _bind_symbols(i, symbols)
    free = [i for i in inputs if free_axes(i)]
    if free and all(free_axes(i) == [0] for i in free):
        for i in free:
            _dims(i)[0].dim_value = 1
            notices.append(f"input {i.name}: free batch dimension bound to 1; --input-shape {i.name}:{suggest_shape(i)} is what was taken")
    elif free:
        options = " ".join(f"--input-shape {i.name}:{suggest_shape(i)}" for i in free)
        raise UnsupportedError(_suggestion(name, free, options), options)


def _dims(i: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return i.type.tensor_type.shape.dim


def free_axes(i: onnx.ValueInfoProto) -> list[int]:
    """Return the axes without a value; [NO_RANK] where not even the rank is stated."""
    if not i.type.HasField("tensor_type"):
        return []
    if not i.type.tensor_type.HasField("shape"):
        return [NO_RANK]
    return [axis for axis, d in enumerate(_dims(i)) if not _bound(d)]


def _bound(d: onnx.TensorShapeProto.Dimension) -> bool:
    return d.HasField("dim_value") and d.dim_value >= 0


def _bind_one(i: onnx.ValueInfoProto, shape: tuple[int, ...], symbols: dict[str, int]) -> None:
    if any(n < 0 and n != FREE for n in shape):
        raise CheckError(f"--input-shape {i.name}:{','.join(map(str, shape))}: no dimension can be negative")
    if not i.type.tensor_type.HasField("shape"):
        i.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in shape)
    dims = _dims(i)
    if len(dims) != len(shape) or any(
            n != FREE and d.dim_value not in (-1, n) for d, n in zip(dims, shape) if d.HasField("dim_value")):
        raise CheckError(f"--input-shape gives {i.name} the shape {_list(shape)}, and the model says {_list([_say(d) for d in dims])}")
    for d, n in zip(dims, shape):
        if n == FREE:
            continue
        if d.dim_param and symbols.setdefault(d.dim_param, n) != n:
            raise CheckError(f"--input-shape gives the dimension {d.dim_param} two values, {symbols[d.dim_param]} and {n}")
        d.dim_value = n


def _bind_symbols(i: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> None:
    for d in _dims(i):
        if d.dim_param in symbols:
            d.dim_value = symbols[d.dim_param]


def _say(d: onnx.TensorShapeProto.Dimension) -> str:
    return str(d.dim_value) if _bound(d) else d.dim_param or "?"


def _list(shape: Sequence[object]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def suggest_shape(i: onnx.ValueInfoProto) -> str:
    """Suggest a shape: batch 1, images 224 x 224, 128 elsewhere. Where not even the rank is stated it is an image."""
    if free_axes(i) == [NO_RANK]:
        return f"1,3,{IMAGE_SIZE},{IMAGE_SIZE}"
    dims = _dims(i)
    return ",".join(str(d.dim_value if _bound(d) else 1 if axis == 0 else IMAGE_SIZE if len(dims) == 4 and axis > 1 else
                        3 if len(dims) == 4 else OTHER_SIZE) for axis, d in enumerate(dims))


def _suggestion(name: str, free: Sequence[onnx.ValueInfoProto], options: str) -> str:
    """Return the sentence on unbound dimensions, with options that are ready to paste."""
    said = "; ".join(f"{i.name} is {_list([_say(d) for d in _dims(i)])}" if free_axes(i) != [NO_RANK] else f"{i.name} states no shape"
                     for i in free)
    return f"{name}: input dimensions are not bound ({said}); give them, for example: {options}"
