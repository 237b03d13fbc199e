"""Domains and versions of operator sets in an ONNX model."""
from __future__ import annotations

import onnx

from aoec.ops.host.host import OWN_DOMAIN


def opset(proto: onnx.ModelProto) -> int:
    """Return the version of the default operator set that the model asks for."""
    others = onnx.defs.onnx_opset_version() if proto.opset_import else 1  # a model without operators of ONNX's own domain
    return next((int(o.version) for o in proto.opset_import if o.domain in OWN_DOMAIN), others)


def opsets(proto: onnx.ModelProto) -> dict[str, int]:
    """Return domain -> the version of its operator set that the model asks for; "" is ONNX's own."""
    return {"" if o.domain in OWN_DOMAIN else o.domain: int(o.version) for o in proto.opset_import} | {"": opset(proto)}


def domain(n: onnx.NodeProto) -> str:
    """Return the domain of a node's operator; "" is ONNX's own."""
    return "" if n.domain in OWN_DOMAIN else n.domain


def full_name(n: onnx.NodeProto) -> str:
    """Return the operator of a node, with the domain of one that is not ONNX's own."""
    return n.op_type if n.domain in OWN_DOMAIN else f"{n.domain}.{n.op_type}"
