"""Models of one operator of matrices or windows: what they multiply is a constant in some, and an input in others."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .models import model, node, normal

Shape = tuple[int, ...]


def of(op: str, *shapes: Shape | np.ndarray, opset: int = 18, **attributes: object) -> onnx.ModelProto:
    """A model of one operator over inputs of these shapes, and constants where arrays stand for them."""
    names = [f"i{at}" for at in range(len(shapes))]
    inputs = {name: s for name, s in zip(names, shapes) if isinstance(s, tuple)}
    constants = {name: s for name, s in zip(names, shapes) if isinstance(s, np.ndarray)}
    return model([node(op, " ".join(names), "y", **attributes)], inputs, ["y"], constants, opset)


def einsum(equation: str, *shapes: Shape) -> onnx.ModelProto:
    return of("Einsum", *shapes, equation=equation)


def recurrent(op: str, gates: int, names: str, outputs: str = "y", directions: int = 1, **attributes: object) -> onnx.ModelProto:
    """A recurrent layer of two sequences of 4 numbers with 5 hidden ones; `names`: those of `given` and of its arguments that it takes."""
    d, hidden, batch, size, steps = directions, 5, 2, 4, 3
    given = {"x": (steps, batch, size), "w": (d, gates * hidden, size), "r": (d, gates * hidden, hidden), "b": (d, 2 * gates * hidden),
             "h": (d, batch, hidden), "c": (d, batch, hidden), "p": (d, 3 * hidden)}
    own = [name for name in names.split() if name != "-"]
    constants = {"l": np.array([steps, 1], np.int32)} if "l" in own else {}
    return model([node(op, names, outputs, hidden_size=hidden, **attributes)], {name: given[name] for name in own if name != "l"},
                 [o for o in outputs.split() if o != "-"][-1:], constants, 14)


CASES = {
    "RNN": recurrent("RNN", 1, "x w r"), "RNN last": recurrent("RNN", 1, "x w r b - h", "a y", direction="reverse", clip=0.3),
    "RNN lengths": recurrent("RNN", 1, "x w r b l h", directions=2, direction="bidirectional", activations=["Relu", "Affine"],
                             activation_alpha=[0.5], activation_beta=[0.25]),
    "GRU": recurrent("GRU", 3, "x w r b", "a y"), "GRU before": recurrent("GRU", 3, "x w r b l h", linear_before_reset=1),
    "GRU activations": recurrent("GRU", 3, "x w r", activations=["HardSigmoid", "Softsign"], activation_alpha=[0.3]),
    "RNN activations": recurrent("RNN", 1, "x w r b l", directions=2, direction="bidirectional", activations=["Elu", "ThresholdedRelu"],
                                 activation_alpha=[0.5, 0.2]),
    "LSTM": recurrent("LSTM", 4, "x w r b"), "LSTM peepholes": recurrent("LSTM", 4, "x w r b l h c p", "a b1 y"),
    "LSTM both ways": recurrent("LSTM", 4, "x w r b l", "a y", directions=2, direction="bidirectional"),
    "LSTM forgets": recurrent("LSTM", 4, "x w r b", input_forget=1, clip=0.5),
    "MatMul vectors": of("MatMul", (5,), (5,)), "MatMul vector left": of("MatMul", (5,), (2, 5, 3)),
    "MatMul vector right": of("MatMul", (3, 2, 5), (5,)), "MatMul batches": of("MatMul", (2, 1, 4, 5), (3, 5, 6)),
    "MatMul batch right": of("MatMul", (4, 5), (3, 5, 6)), "MatMul batch alone": of("MatMul", (2, 3, 4, 5), (1, 1, 5, 6)),
    "MatMul batch constant": of("MatMul", (4, 5), normal(3, 5, 6)),
    "Gemm inputs": of("Gemm", (5, 3), (4, 5), (3, 1), transA=1, transB=1, alpha=0.5, beta=0.25),
    "Gemm number": of("Gemm", (3, 5), (5, 4), ()),
    "Einsum": einsum("ij,jk->ik", (3, 4), (4, 5)), "Einsum implicit": einsum("bij,bjk", (2, 3, 4), (2, 4, 5)),
    "Einsum dots": einsum("...ij,...kj->...ki", (2, 1, 3, 4), (2, 5, 2, 4)), "Einsum outer": einsum("i,j->ji", (3,), (4,)),
    "Einsum sums": einsum("abc,cd->a", (2, 3, 4), (4, 5)), "Einsum diagonal": einsum("...ii->...i", (2, 4, 4)),
    "Einsum trace": einsum("iji->j", (4, 3, 4)), "Einsum of four": einsum("ab,bc,cd,da->", (2, 3), (3, 4), (4, 5), (5, 2)),
    "Einsum rows": einsum("bi,bi->b", (3, 5), (3, 5)), "Einsum turned": einsum("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    "Conv of inputs": of("Conv", (1, 6, 7, 8), (20, 6, 3, 2), (20,), pads=[1, 0, 1, 1]),
    "Conv of inputs grouped": of("Conv", (2, 6, 7, 8), (9, 2, 3, 3), (9,), group=3, strides=[2, 1]),
    "Conv of inputs in blocks": of("Conv", (1, 32, 5, 5), (32, 16, 1, 1), group=2),
    "Conv of a line": of("Conv", (2, 4, 9), (3, 4, 3), (3,), pads=[1, 2], dilations=[2], strides=[2]),
    "Conv of a volume": of("Conv", (1, 4, 5, 6, 7), normal(6, 2, 3, 2, 2), (6,), group=2, pads=[1, 0, 1, 1, 2, 0], strides=[2, 1, 2],
                           dilations=[1, 2, 1]),
    "Conv same of a volume": of("Conv", (2, 2, 4, 5, 3), (3, 2, 2, 2, 3), auto_pad="SAME_LOWER"),
    "ConvTranspose": of("ConvTranspose", (1, 4, 5, 3), (4, 3, 3, 3), (3,), strides=[2, 3], pads=[1, 0, 1, 2], output_padding=[1, 2]),
    "ConvTranspose constant": of("ConvTranspose", (1, 4, 5, 3), normal(4, 3, 2, 5), normal(3)),
    "ConvTranspose dilated": of("ConvTranspose", (1, 2, 3, 4), (2, 3, 3, 2), dilations=[2, 3], strides=[3, 2]),
    "ConvTranspose grouped": of("ConvTranspose", (2, 4, 3, 3), (4, 3, 2, 3), (6,), group=2, strides=[2, 2]),
    "ConvTranspose to": of("ConvTranspose", (1, 2, 3, 3), (2, 2, 3, 3), strides=[3, 2], output_shape=[10, 8]),
    "ConvTranspose same": of("ConvTranspose", (1, 2, 3, 3), (2, 2, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "ConvTranspose same with gaps": of("ConvTranspose", (1, 2, 4, 3), (2, 2, 2, 1), strides=[3, 2], auto_pad="SAME_LOWER"),
    "ConvTranspose of a line": of("ConvTranspose", (2, 3, 6), (3, 2, 4), strides=[3], pads=[2, 1]),
    "ConvTranspose of a volume": of("ConvTranspose", (1, 2, 3, 2, 3), (2, 2, 2, 3, 2), strides=[2, 2, 1]),
    "MaxPool of a line": of("MaxPool", (2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 1]),
    "MaxPool of a volume": of("MaxPool", (1, 3, 5, 6, 7), kernel_shape=[3, 2, 3], strides=[2, 1, 2], pads=[1, 0, 1, 1, 1, 0], ceil_mode=1),
    "MaxPool places": model([node("MaxPool", "x", "a y", kernel_shape=[2, 2])], {"x": (2, 3, 5, 6)}, ["y"], types={"y": TensorProto.INT64}),
    "MaxPool places by columns": model([node("MaxPool", "x", "a y", kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1],
                                             storage_order=1)], {"x": (1, 2, 5, 6)}, ["y"], types={"y": TensorProto.INT64}),
    "MaxPool of large windows": of("MaxPool", (1, 2, 45, 70), kernel_shape=[40, 55], strides=[3, 2], pads=[2, 1, 0, 3]),
    "AveragePool of large windows": of("AveragePool", (1, 2, 45, 70), kernel_shape=[40, 55], strides=[3, 2], pads=[2, 1, 0, 3]),
    "AveragePool of a line": of("AveragePool", (2, 3, 9), kernel_shape=[4], strides=[3], pads=[1, 1], ceil_mode=1),
    "AveragePool of a volume": of("AveragePool", (1, 3, 5, 6, 7), kernel_shape=[3, 2, 3], pads=[1, 0, 1, 1, 1, 0]),
    "AveragePool counted of a volume": of("AveragePool", (1, 3, 5, 6, 7), kernel_shape=[2, 3, 3], pads=[1] * 6, strides=[2, 2, 2],
                                          count_include_pad=1),
    "LpPool": of("LpPool", (1, 3, 6, 7), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "LpPool of sizes": of("LpPool", (1, 3, 9), kernel_shape=[3], p=1), "LpPool cubed": of("LpPool", (1, 3, 9), kernel_shape=[2], p=3),
    "LpPool of a volume": of("LpPool", (1, 2, 4, 5, 4), kernel_shape=[2, 3, 2]),
    "GlobalAveragePool of a line": of("GlobalAveragePool", (2, 3, 7)), "GlobalMaxPool of a volume": of("GlobalMaxPool", (2, 3, 4, 2, 5)),
    "GlobalLpPool": of("GlobalLpPool", (2, 3, 4, 5)), "GlobalLpPool of sizes": of("GlobalLpPool", (2, 3, 9), p=1),
}
