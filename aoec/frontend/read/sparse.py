"""Sparse constants made dense: those of a graph, and of nodes of Constant, in subgraphs too."""
from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import checker, numpy_helper

from aoec.base.errors import UnsupportedError
from aoec.frontend.read.weights import array_of

MOST_ELEMENTS = 1 << 28  # of one dense constant: a few bytes can declare any number


def make_dense(graph: onnx.GraphProto) -> None:
    """Replace sparse constants of the graph by dense ones of the same name, and sparse values of nodes by dense values.

    Raise UnsupportedError for one of more than `MOST_ELEMENTS` elements, and onnx's ValidationError where it is invalid.
    """
    graph.initializer.extend(numpy_helper.from_array(to_dense(s, s.values.name), s.values.name) for s in graph.sparse_initializer)
    del graph.sparse_initializer[:]
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.SPARSE_TENSOR and n.op_type == "Constant":
                value = numpy_helper.from_array(to_dense(a.sparse_tensor, n.output[0]))
                a.CopyFrom(onnx.helper.make_attribute("value", value))
            elif a.type == onnx.AttributeProto.GRAPH:
                make_dense(a.g)
            for g in a.graphs:
                make_dense(g)


def to_dense(sparse: onnx.SparseTensorProto, name: str) -> np.ndarray:
    """Return the array of a sparse constant, of which the indices are places in each dimension or in the flattened array."""
    if prod(sparse.dims) > MOST_ELEMENTS:
        raise UnsupportedError(f"the sparse constant {name} has the shape {list(sparse.dims)}; sparse constants of up to {MOST_ELEMENTS:,} "
                               "elements are made dense")
    checker.check_sparse_tensor(sparse, checker.DEFAULT_CONTEXT)
    values, indices = array_of(sparse.values, name), array_of(sparse.indices, name)
    out = np.zeros(tuple(sparse.dims), values.dtype)
    out[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, out.shape)] = values
    return out
