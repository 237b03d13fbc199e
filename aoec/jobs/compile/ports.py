"""Inputs and outputs of a model as a user sees them: the model's own names, types and shapes."""
from __future__ import annotations

from collections.abc import Mapping

from aoec.artifact.compiled import Port
from aoec.ir.graph.graph import OPAQUE, Graph, Tensor
from aoec.ops import typed
from aoec.ops.run import REALS


def ports(graph: Graph, names: tuple[str, ...], precision: str, dims: Mapping[str, tuple[str, ...]] | None = None) -> tuple[Port, ...]:
    """Return the model's inputs or outputs by its own names; reals are what the model declares whatever the precision inside, fp32 for
    float.

    `dims`: the model's names of dimensions."""
    tensors = {t.name: t for t in graph.tensors}
    named = {n: d for n, d in (dims or {}).items() if n in tensors and len(d) == len(tensors[n].shape)}
    return tuple(Port(n, n, _port_dtype(tensors[n]), tensors[n].shape, named.get(n, ())) for n in names)


def _port_dtype(t: Tensor) -> str:
    """Return a dtype of ours, or ONNX's type of what only the host holds."""
    if t.dtype == OPAQUE:
        return t.declared or OPAQUE
    if typed.small(t.declared):
        return f"{t.declared}[{','.join(map(str, t.shape))}]"
    return {"tensor(float16)": "fp16", "tensor(bfloat16)": "bf16"}.get(t.declared, "fp32") if t.dtype in REALS else t.dtype
