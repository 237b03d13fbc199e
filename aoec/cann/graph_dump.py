"""The graphs that CANN's compiler dumps (`DUMP_GE_GRAPH`): `ge_onnx_*.pbtxt` and `ge_proto_*.txt`, read for what their operators are.

Both are protobuf's text form. In `ge_onnx` a node is ONNX's, its type behind `ge:`, its tensors in attributes `input_desc_shape:0`,
`input_desc_dtype:0`, `input_desc_layout:0`, and the same of outputs. In `ge_proto` an `op` has messages `input_desc` and `output_desc` with
`dtype`, `layout` and `shape`. (DUMP_GE_GRAPH and DUMP_GRAPH_FORMAT, envref_07_0155; Ascend/tools reads `ge_onnx` so.)
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.cann.op_summary import Operand
from aoec.cann.op_summary_read import LAYOUTS, dtype
from aoec.cann.seen import Seen
from aoec.cann.text_proto import Message, parse

NO_KERNELS = ("Data", "Const", "Constant", "NetOutput", "Variable", "RefData", "ConstPlaceHolder", "PlaceHolder", "End")
OPERANDS_LIMIT = 256  # of one operator


def read(path: str | Path) -> tuple[Seen, ...]:
    """Return the operators of a dumped graph, in its order, without those that hold or name data. Raise CheckError where the file holds
    none."""
    said = parse(read_text(path), str(path))
    found = [seen for graph in said.all("graph") for seen in (*_of_nodes(graph), *_of_ops(graph))]
    found = [seen for seen in found if seen.type not in NO_KERNELS]
    if not found:
        raise CheckError(f"{path} holds no operators; a graph of CANN's compiler is dumped with DUMP_GE_GRAPH=2 as ge_onnx_*_Build.pbtxt, "
                         "or as ge_proto_*_Build.txt")
    return tuple(found)


def _of_nodes(graph: Message) -> Iterator[Seen]:
    """Yield the operators of a file of `ge_onnx`."""
    for node in graph.all("node"):
        named = {a.text("name"): a for a in node.all("attribute")}
        yield Seen(node.text("name"), node.text("op_type").removeprefix("ge:"), _operands_of(named, "input"), _operands_of(named, "output"))


def _operands_of(attributes: Mapping[str, Message], side: str) -> tuple[Operand, ...]:
    """Return the tensors of one side, out of the attributes of a node."""
    out = []
    for i in range(OPERANDS_LIMIT):
        shape, kind, layout = (attributes.get(f"{side}_desc_{what}:{i}", Message()) for what in ("shape", "dtype", "layout"))
        if not any(a.scalars for a in (shape, kind, layout)):
            break
        out.append(_operand(shape.texts("ints"), kind.text("s"), layout.text("s")))
    return tuple(out)


def _of_ops(graph: Message) -> Iterator[Seen]:
    """Yield the operators of a file of `ge_proto`."""
    for op in graph.all("op"):
        inputs, outputs = (tuple(map(_read_tensor, op.all(f"{side}_desc"))) for side in ("input", "output"))
        yield Seen(op.text("name"), op.text("type"), inputs, outputs)


def _read_tensor(desc: Message) -> Operand:
    dims = [dim for shape in desc.all("shape") for dim in shape.texts("dim")]
    return _operand(dims, desc.text("dtype"), desc.text("layout"))


def _operand(dims: list[str], kind: str, layout: str) -> Operand:
    return Operand(_numbers(dims), dtype(kind), LAYOUTS.get(layout, layout))


def _numbers(words: list[str]) -> tuple[int, ...]:
    """Return the words as whole numbers; those that are none make no shape."""
    numbers = [w.removeprefix("-") for w in words]
    return tuple(map(int, words)) if all(n.isdecimal() and len(n) < 16 for n in numbers) else ()
