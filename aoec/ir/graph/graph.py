"""Graph: operators on tensors, with layouts and groups. Shapes are integers: free dimensions are bound at import."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

Attribute = Union[int, float, str, tuple[int, ...], tuple[float, ...]]
# shapes of its inputs for which one model is compiled: CANN 8.5, --dynamic_batch_size and --dynamic_dims, "(1,100]"
FEWEST_GEARS, MOST_GEARS = 2, 100
OPAQUE = "opaque"  # dtype of a value that only the host holds: of any other type than a tensor of our dtypes and a fixed shape


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` is the logical (ONNX) shape; `layout` says how it lies in GM: ND, NZ (last two dimensions), NC1HWC0, NC1HWC0_C04.

    `data` is the sha256 of the raw little-endian bytes for a constant (they lie beside the text), else "".
    `c0` of a fractal layout is 32 bytes of dtype. `declared` is ONNX's type, such as "tensor(float16)" or "seq(tensor(int64)[2,?])", where
    dtype and shape do not say it: reals that the model does not declare as float, and values of dtype OPAQUE, which have no shape here.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str = "ND"
    data: str = ""
    declared: str = ""


@dataclass(frozen=True, slots=True)
class OpNode:
    """`op` is a word of the operator dictionary, `host.<OpType>`, or a word of the user's own, of which `definition` is the meaning as
    canonical text ("" of all others); inputs may hold "" for an absent optional one."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    definition: str = ""

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute | None:
        return dict(self.attributes).get(name, default)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that become one func (or run on the host), in order; `kind`: cube, vector, host or view (no cost)."""

    name: str
    kind: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """What a node of control flow runs again and again, or not at all: nodes of the graph, in order, which read the body's inputs,
    constants and each other alone. `kind`: "body" of a Loop or Scan, "then_branch" or "else_branch" of an If, as ONNX has them."""

    node: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order, those of bodies behind the others; `groups` is empty before `fuse`, and each lies in one body or in none.

    `tensors` begins with the inputs, in their order: the text writes them so. A body's node stands in no body or in an earlier one.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    nodes: tuple[OpNode, ...]
    groups: tuple[Group, ...] = ()
    bodies: tuple[Body, ...] = ()
