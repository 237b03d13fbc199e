"""Small models in ONNX's own text, and every AI Core group of them with data: whole numbers, so that sums are exact in any order."""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import onnx
import onnx.parser

from aoec.frontend.translate.onnx import load
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.evaluate_whole import evaluate_whole, takes
from aoec.ir.func.tir import Buffer, Func
from aoec.ir.graph.graph import Graph, Tensor
from aoec.ir.program import Program
from aoec.jobs.run.execute import run_program
from aoec.jobs.sweep.sweep_values import tensor
from aoec.jobs.tune.tuning import Problem, problem
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower, operands
from aoec.ops.run import evaluate
from aoec.ops.words.layout import to_logical, to_physical
from aoec.search.space.grid import Candidate
from aoec.simulate.timing.state import State
from aoec.target.machine import DEFAULT, Machine, parse_machine
from aoec.target.machine import load as load_machine
from tests.frontend.written import written

# name -> (precision, inputs, result, nodes); inputs named w.. and b.. are constants. Tails in every axis, batches, every operator.
MODELS = {
    "matmul": ("fp16", "float[37,50] x, float[50,21] w, float[21] b", "float[37,21] y", "t = MatMul(x, w) u = Add(t, b) y = Relu(u)"),
    "matmul32": ("fp32", "float[20,24] x, float[24,40] w", "float[20,40] y", "y = MatMul(x, w)"),
    "matmul_batch": ("fp16", "float[2,3,9,24] x, float[24,17] w", "float[2,3,9,17] y", "y = MatMul(x, w)"),
    "matmul_nd": ("fp16", "float[2,20,40] x, float[2,40,35] z", "float[2,20,35] y", "y = MatMul(x, z)"),
    "matmul_even": ("fp16", "float[64,48] x, float[48,96] z", "float[64,96] y", "y = MatMul(x, z)"),
    "matmul_even32": ("fp32", "float[64,48] x, float[48,96] z", "float[64,96] y", "y = MatMul(x, z)"),
    "matmul_turned": ("fp32", "float[19,40] x, float[21,40] z", "float[19,21] y", "y = Gemm<transB=1>(x, z)"),
    "conv": ("fp16", "float[1,5,5,4] x, float[20,5,3,3] w, float[20] b", "float[1,20,5,4] y",
             "t = Conv<pads=[1,1,1,1]>(x, w, b) y = Relu(t)"),
    "conv_dilated": ("fp16", "float[2,17,5,6] x, float[9,17,2,3] w", "float[2,9,4,3] y",
                     "y = Conv<pads=[2,1,2,3], strides=[2,2], dilations=[2,2]>(x, w)"),
    "conv32": ("fp32", "float[1,9,5,6] x, float[17,9,3,1] w, float[17] b", "float[1,17,2,6] y",
               "y = Conv<pads=[0,0,0,0], strides=[2,1]>(x, w, b)"),
    "point": ("fp16", "float[2,20,3,7] x, float[35,20,1,1] w, float[35] b", "float[2,35,3,7] y", "t = Conv(x, w, b) y = Relu(t)"),
    "point_strided": ("fp16", "float[1,17,7,5] x, float[16,17,1,1] w", "float[1,16,4,3] y", "y = Conv<strides=[2,2]>(x, w)"),
    "grouped": ("fp16", "float[1,32,3,4] x, float[32,16,3,3] w", "float[1,32,3,4] y", "y = Conv<pads=[1,1,1,1], group=2>(x, w)"),
    "depthwise": ("fp16", "float[1,20,3,3] x, float[20,1,3,3] w, float[20] b", "float[1,20,3,3] y",
                  "y = Conv<pads=[1,1,1,1], group=20>(x, w, b)"),
    "depthwise_blocks": ("fp16", "float[1,48,3,5] x, float[48,1,3,3] w, float[48] b", "float[1,48,3,5] y",
                         "y = Conv<pads=[1,1,1,1], group=48>(x, w, b)"),
    "conv_few": ("fp16", "float[2,3,9,8] x, float[12,3,7,7] w, float[12] b", "float[2,12,5,4] y",
                 "t = Conv<pads=[3,3,3,3], strides=[2,2]>(x, w, b) y = Relu(t)"),
    "conv_four": ("fp16", "float[1,4,9,12] x, float[24,4,3,3] w", "float[1,24,7,10] y", "y = Conv(x, w)"),
    "point_few": ("fp16", "float[2,3,9,12] x, float[24,3,1,1] w", "float[2,24,9,12] y", "y = Conv(x, w)"),
    "residual": ("fp16", "float[2,20,4,3] x, float[20,20,1,1] w", "float[2,20,4,3] y", "t = Conv(x, w) u = Add(t, x) y = Relu(u)"),
    "chain": ("fp32", "float[9,37] x, float[9,37] z", "float[9,37] y", "t = Mul(x, z) u = Add(t, z) v = Abs(u) y = Relu(v)"),
    "scale_rows": ("fp32", "float[70,1] x, float[70,27] z", "float[70,27] y", "y = Mul(x, z)"),
    "scale_rows16": ("fp16", "float[2,21,1] x, float[2,21,48] z", "float[2,21,48] y", "t = Sub(z, x) y = Mul(t, x)"),
    "add_columns": ("fp32", "float[5,2605] x, float[2605] z", "float[5,2605] y", "t = Mul(x, z) y = Relu(t)"),
    "sigmoid": ("fp16", "float[3,5,21] x", "float[3,5,21] y", "y = Sigmoid(x)"),
    "leaky": ("fp16", "float[3,5,21] x", "float[3,5,21] y", "y = LeakyRelu<alpha=0.5>(x)"),
    "softsign": ("fp32", "float[3,70] x", "float[3,70] y", "u = Softplus(x) v = Selu(u) y = Softsign(v)"),
    "max_pool": ("fp16", "float[2,20,9,7] x", "float[2,20,5,4] y", "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)"),
    "max_pool32": ("fp32", "float[1,9,6,5] x", "float[1,9,5,4] y", "y = MaxPool<kernel_shape=[2,2]>(x)"),
    "avg_pool": ("fp16", "float[1,20,6,8] x", "float[1,20,3,4] y", "y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x)"),
    "avg_pool_near": ("fp16", "float[2,16,9,9] x", "float[2,16,9,9] y", "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)"),
    "max_pool_near": ("fp16", "float[1,16,11,10] x", "float[1,16,9,9] y", "y = MaxPool<kernel_shape=[3,2]>(x)"),
    "max_pool_wide": ("fp16", "float[2,32,9,7] x", "float[2,32,9,7] y", "y = MaxPool<kernel_shape=[5,5], pads=[2,2,2,2]>(x)"),
    "global_pool": ("fp16", "float[2,20,5,3] x", "float[2,20,1,1] y", "y = GlobalAveragePool(x)"),
    "softmax": ("fp16", "float[5,37] x", "float[5,37] y", "y = Softmax<axis=1>(x)"),
    "softmax32": ("fp32", "float[4,19] x", "float[4,19] y", "y = Softmax<axis=1>(x)"),
    "softmax_rows": ("fp16", "float[2,27,77] x", "float[2,27,77] y", "y = Softmax<axis=2>(x)"),
    "softmax_turned": ("fp16", "float[2,7,3,32] x", "float[2,3,7,32] y", "t = Transpose<perm=[0,2,1,3]>(x) y = Softmax<axis=3>(t)"),
    "add_turned": ("fp32", "float[5,3,16] x, float[3,5,16] z", "float[3,5,16] y", "t = Transpose<perm=[1,0,2]>(x) y = Add(t, z)"),
    "rotary": ("fp16", "float[1,12,3,64] x, float[12,64] c, float[12,64] s", "float[1,3,12,64] y",
               "t = Transpose<perm=[0,2,1,3]>(x) d, e = Split<axis=3>(t) n = Neg(e) o = Concat<axis=3>(n, d) "
               "u = Mul(t, c) v = Mul(o, s) y = Add(u, v)"),
    "rotary32": ("fp32", "float[2,3,7,32] x, float[7,32] c, float[7,32] s", "float[2,3,7,32] y",
                 "d, e = Split<axis=3>(x) n = Neg(e) o = Concat<axis=3>(n, d) u = Mul(x, c) v = Mul(o, s) y = Add(v, u)"),
    "softmax_number": ("fp16", "float[240,70] x, float[1] z", "float[240,70] y", "t = Mul(x, z) y = Softmax<axis=1>(t)"),
    "softmax_far": ("fp32", "float[43,300] x", "float[43,300] y", "y = Softmax<axis=1>(x)"),
    "softmax_long": ("fp16", "float[3,6200] x", "float[3,6200] y", "y = Softmax<axis=1>(x)"),
    "concat": ("fp16", "float[2,16,3,5] x, float[2,32,3,5] z, float[16,16,1,1] w", "float[2,48,3,5] y",
               "t = Conv(x, w) y = Concat<axis=1>(t, z)"),
    "concat_flat": ("fp16", "float[2,20,3,5] x, float[2,7,3,5] z", "float[2,27,3,5] y", "y = Concat<axis=1>(x, z)"),
    "concat_rows": ("fp32", "float[3,40,7] x, float[3,40,9] z", "float[3,40,16] y", "y = Concat<axis=2>(x, z)"),
    "slice": ("fp16", "float[2,9,20] x", "float[2,5,16] y", "a = Constant<value_ints=[1,2]>() s = Constant<value_ints=[2,3]>() "
              "e = Constant<value_ints=[7,19]>() y = Slice(x, s, e, a)"),
    "upsample": ("fp16", "float[2,20,3,5] x, float[20,20,1,1] w", "float[2,20,6,15] y",
                 "s = Constant<value_floats=[1.0,1.0,2.0,3.0]>() t = Conv(x, w) y = Resize<mode=\"nearest\">(t, , s)"),
    "interpolate_rows": ("fp16", "float[2,20,7,9] x, float[20,20,1,1] w", "float[2,20,28,9] y",
                         "s = Constant<value_ints=[2,20,28,9]>() t = Conv(x, w) y = Resize<mode=\"linear\">(t, , , s)"),
    "interpolate_columns": ("fp16", "float[2,20,3,21] x, float[20,20,1,1] w", "float[2,20,3,42] y",
                            "s = Constant<value_ints=[2,20,3,42]>() t = Conv(x, w) y = Resize<mode=\"cubic\">(t, , , s)"),
    "shuffle": ("fp16", "float[2,20,3,5] x, float[128,20,1,1] w, float[128] b", "float[2,32,6,10] y",
                "t = Conv(x, w, b) y = DepthToSpace<blocksize=2, mode=\"CRD\">(t)"),
    "slice_image": ("fp16", "float[2,40,9,11] x, float[40,40,1,1] w", "float[2,24,4,8] y",  # channels from a block on to the last
                    "a = Constant<value_ints=[1,2,3]>() s = Constant<value_ints=[16,1,2]>() e = Constant<value_ints=[40,9,10]>() "
                    "p = Constant<value_ints=[1,2,1]>() t = Conv(x, w) y = Slice(t, s, e, a, p)"),
    "slice_between": ("fp16", "float[1,40,3,5] x, float[40,40,1,1] w", "float[1,16,3,5] y",  # channels of two blocks, of neither all
                      "a = Constant<value_ints=[1]>() s = Constant<value_ints=[8]>() e = Constant<value_ints=[24]>() "
                      "t = Conv(x, w) y = Slice(t, s, e, a)"),
    "pad_image": ("fp16", "float[2,20,5,7] x, float[20,20,1,1] w", "float[2,20,8,9] y",
                  "s = Constant<value_ints=[0,0,1,2,0,0,2,0]>() t = Conv(x, w) y = Pad(t, s)"),
    "active": ("fp16", "float[1,20,9,7] x, float[40,20,3,3] w, float[40] b", "float[1,40,9,7] y",
               "t = Conv<pads=[1,1,1,1]>(x, w, b) u = Relu(t) y = LeakyRelu<alpha=0.5>(u)"),
    "active_wide": ("fp16", "float[1,20,9,7] x, float[40,20,3,3] w, float[40] b", "float[1,40,9,7] y",
                    "t = Conv<pads=[1,1,1,1]>(x, w, b) y = Erf(t)"),
    "active_blocks": ("fp16", "float[1,32,5,7] x, float[32,1,3,3] w, float[32] b", "float[1,32,5,7] y",
                      "t = Conv<pads=[1,1,1,1], group=32>(x, w, b) y = Sigmoid(t)"),
    "joined": ("fp16", "float[1,20,9,7] x, float[40,20,3,3] w, float[40] b, float[40,20,1,1] w1", "float[1,40,9,7] y",
               "z = Conv(x, w1) t = Conv<pads=[1,1,1,1]>(x, w, b) u = Add(z, t) y = Relu(u)"),
    "joined_points": ("fp16", "float[2,20,4,3] x, float[20,20,1,1] w, float[20,20,1,1] w1, float[20,20,1,1] w2", "float[2,20,4,3] y",
                      "z = Conv(x, w1) v = Conv(z, w2) r = Conv(x, w) t = Relu(r) u = Add(t, z) y = Mul(u, v)"),
    "joined_blocks": ("fp16", "float[1,32,5,7] x, float[32,1,3,3] w, float[32,32,1,1] w1", "float[1,32,5,7] y",
                      "z = Conv(x, w1) t = Conv<pads=[1,1,1,1], group=32>(x, w) y = Sub(t, z)"),
    "rows_of_image": ("fp16", "float[2,32,3,7] x, float[48,32,1,1] w", "float[2,3,7,48] y",
                      "t = Conv(x, w) y = Transpose<perm=[0,2,3,1]>(t)"),
    "rows_ragged": ("fp16", "float[2,32,3,7] x, float[20,32,1,1] w", "float[2,3,7,20] y",
                    "t = Conv(x, w) y = Transpose<perm=[0,2,3,1]>(t)"),
    "image_of_rows": ("fp16", "float[2,3,7,48] x, float[20,48,1,1] w", "float[2,20,3,7] y",
                      "t = Transpose<perm=[0,3,1,2]>(x) y = Conv(t, w)"),
    "gate": ("fp16", "float[2,32,3,5] x, float[32,32,1,1] w", "float[2,32,3,5] y",
             "t = Conv(x, w) g = GlobalAveragePool(t) y = Mul(t, g)"),
    "places": ("fp16", "float[3,50,200] x, float[1,50,200] z", "float[3,50,200] y", "y = Add(x, z)"),
    "concat_runs": ("fp32", "float[1024] x, float[4096] z", "float[5120] y", "y = Concat<axis=0>(x, z)"),
    "concat_row": ("fp16", "float[390,64] x, float[1,64] z", "float[391,64] y", "y = Concat<axis=0>(x, z)"),
    "concat_odd": ("fp16", "float[64,17,33] x, float[32,17,33] z", "float[96,17,33] y", "y = Concat<axis=0>(x, z)"),
    "concat_long": ("fp16", "float[1000] x, float[9001] z", "float[10001] y", "y = Concat<axis=0>(x, z)"),
    "reduce_all": ("fp16", "float[7,90] x", "float[1,1] y", "y = ReduceMax(x)"),
    "reduce_all_long": ("fp32", "float[3,5001] x", "float[1,1] y", "y = ReduceMin(x)"),
    "reduce_sum16": ("fp16", "float[21,70] x", "float[21,1] y", "a = Constant <value = int64[1] {1}> () y = ReduceSum(x, a)"),
    "sum_columns": ("fp16", "float[200,48] x", "float[1,48] y", "a = Constant <value = int64[1] {0}> () y = ReduceSum(x, a)"),
    "sum_blocks": ("fp32", "float[70,640] x", "float[1,640] y", "a = Constant <value = int64[1] {0}> () y = ReduceSum(x, a)"),
    "sum_all": ("fp32", "float[30,77] x", "float[1,1] y", "y = ReduceSum(x)"),
    "sum_planes": ("fp32", "float[3,70,9] x", "float[3,9] y", "a = Constant <value = int64[1] {1}> () y = ReduceSum<keepdims=0>(x, a)"),
    "reduce_mean": ("fp16", "float[21,700] x", "float[21] y", "y = ReduceMean<keepdims=0, axes=[1]>(x)"),
    "reduce_max": ("fp32", "float[37,20] x", "float[1,20] y", "y = ReduceMax<axes=[0]>(x)"),
    "reduce_long": ("fp32", "float[3,9000] x", "float[3] y", "y = ReduceMax<keepdims=0, axes=[1]>(x)"),
    "reduce_rows": ("fp32", "float[70,27] x", "float[70] y", "y = ReduceMin<keepdims=0, axes=[1]>(x)"),
    "reduce_tall": ("fp32", "float[333,2,5] x", "float[2,5] y", "y = ReduceMax<keepdims=0, axes=[0]>(x)"),
    "reduce_min": ("fp32", "float[6,17,24] x", "float[6,24] y", "y = ReduceMin<keepdims=0, axes=[1]>(x)"),
    "log_softmax": ("fp16", "float[5,37] x", "float[5,37] y", "y = LogSoftmax<axis=1>(x)"),
    "layer_norm": ("fp16", "float[3,9,48] x, float[48] w, float[48] b", "float[3,9,48] y", "y = LayerNormalization(x, w, b)"),
    "layer_norm_tails": ("fp32", "float[21,2,35] x, float[2,35] w", "float[21,2,35] y", "y = LayerNormalization<axis=1>(x, w)"),
    "gelu": ("fp16", "float[5,37] x", "float[5,37] y", "y = Erf(x)"),
    "max_planes": ("fp16", "float[3,16,197] x", "float[3,197] y", "y = ReduceMax<keepdims=0, axes=[1]>(x)"),
}
# products with what joins them where their results go through UB
ON_COUPLED = {
    "product_active": ("fp16", "float[37,50] x, float[50,48] w, float[48] b", "float[37,48] y",
                       "t = MatMul(x, w) u = Add(t, b) v = Relu(u) y = LeakyRelu<alpha=0.5>(v)"),
    "product_joined": ("fp16", "float[2,20,40] x, float[2,40,32] z, float[2,40,32] w", "float[2,20,32] y",
                       "r = MatMul(x, z) t = MatMul(x, w) u = Add(t, r) v = Abs(u) y = Sub(v, r)"),
    "product_each": ("fp16", "float[2,20,40] x, float[2,40,32] w", "float[2,20,32] y", "t = MatMul(x, w) y = Sigmoid(t)"),
    "product_erf": ("fp16", "float[37,50] x, float[50,48] w, float[48] b", "float[37,48] y", "t = MatMul(x, w) u = Add(t, b) y = Erf(u)"),
    "product_erf_alone": ("fp16", "float[2,20,40] x, float[2,40,48] z", "float[2,20,48] y", "t = MatMul(x, z) y = Erf(t)"),
    "product_erf_relu": ("fp16", "float[37,50] x, float[50,80] w, float[80] b", "float[37,80] y",
                         "t = MatMul(x, w) u = Add(t, b) v = Relu(u) s = Erf(v) y = Neg(s)"),
    "product_erf_few": ("fp16", "float[5,50] x, float[50,48] w, float[48] b", "float[5,48] y",
                        "t = MatMul(x, w) u = Add(t, b) y = Erf(u)"),
    "product_erf_joined": ("fp16", "float[2,20,40] x, float[2,40,32] z, float[2,40,32] w", "float[2,20,32] y",
                           "r = MatMul(x, z) t = MatMul(x, w) u = Erf(t) y = Add(u, r)"),
}
ROUNDED = ("product_each", "product_erf", "sigmoid", "avg_pool", "global_pool", "softmax", "reduce_mean", "softsign", "active_blocks",
           "active_wide", "log_softmax", "layer_norm", "gelu")  # models whose results are rounded on the way


@dataclass(frozen=True)
class Case:
    """One group of a model: its func, what it reads as stored (by tensor of the func), and what it must write."""

    name: str
    model: str
    func: Func
    bindings: tuple[tuple[str, str], ...]
    tensors: dict[str, Tensor]
    stored: dict[str, np.ndarray]  # by graph tensor
    wanted: np.ndarray  # logical
    result: Tensor

    def agrees(self, got: np.ndarray) -> bool:
        """Equality, but where results are rounded on the way; stored padding must be zero."""
        got = got.reshape(-1)[:to_physical(self.wanted, self.result).size]
        logical = to_logical(got, self.result)
        if not np.array_equal(got.reshape(-1) != 0, to_physical(logical, self.result).reshape(-1) != 0):
            return False
        if self.model.startswith(ROUNDED):
            return np.allclose(logical.astype(np.float64), self.wanted.astype(np.float64), rtol=4e-3, atol=1e-3)
        return np.array_equal(logical, self.wanted)

    def run(self, program: Program) -> np.ndarray:
        """What a program of the group writes."""
        return run_program(program, self.bindings, self.tensors, self.stored)[self.result.name]

    def evaluated(self, func: Func) -> np.ndarray:
        """What a func of the group means, scheduled or not, as stored."""
        own = dict(self.bindings)
        feeds = {b.name: indexed(self.stored[own[b.name]], b) for b in func.inputs}
        (got,) = (evaluate_whole if takes(func) else evaluate_func)(func, feeds).values()  # equal by a law of theirs, and far faster
        return to_physical(got, tensor(func.outputs[0]))


def indexed(array: np.ndarray, b: Buffer) -> np.ndarray:
    """A stored array as a func's indices see it: fractals by row and column, with zeros behind what is stored."""
    shape = tuple(e.value for e in b.shape)  # type: ignore[union-attr]
    if b.layout == "ND":
        out = np.zeros(shape, array.dtype)
        out.reshape(-1)[:array.size] = array.reshape(-1)
        return out
    return to_logical(array, tensor(b))


def proto(name: str) -> onnx.ModelProto:
    """The model with small whole numbers for its constants."""
    _, inputs, result, nodes = (MODELS | ON_COUPLED)[name]
    random = np.random.default_rng(3)
    return written(f'<ir_version: 8, opset_import: ["": 17]>\n{name} ({inputs}) => ({result}) {{ {nodes} }}',
                   lambda name, shape: random.integers(-1, 2, shape).astype(np.float32) if name[0] in "wb" else None)


@cache
def cases(name: str, machine: str = DEFAULT) -> tuple[Case, ...]:
    """The AI Core groups that a model has for a machine, in order."""
    graph, weights, _ = load(proto(name), {}, (MODELS | ON_COUPLED)[name][0])
    random = np.random.default_rng(4)
    tensors = {t.name: t for t in graph.tensors}
    feeds = {i: random.integers(-2, 3, tensors[i].shape).astype(np.float32) for i in graph.inputs}
    fused, packed = fuse(graph, weights, load_machine(machine))
    values, plain = evaluate(fused, feeds, packed, every=True), evaluate(graph, feeds, weights)
    for out in graph.outputs:
        got, want = (v[out].astype(np.float32) for v in (values, plain))
        assert np.allclose(got, want, rtol=2e-3, atol=1e-3), f"fusing {name} changes {out}"
    return tuple(case(name, fused, g.name, values) for g in fused.groups if g.kind in ("cube", "vector"))


def case(model: str, graph: Graph, group: str, values: dict[str, np.ndarray]) -> Case:
    found = next(g for g in graph.groups if g.name == group)
    func = lower(graph, found)
    ins, (out,) = operands(graph, found)
    stored = {t.name: to_physical(values[t.name], t) for t in ins}
    bindings = tuple(zip([b.name for b in (*func.inputs, *func.outputs)], [t.name for t in (*ins, out)], strict=True))
    return Case(f"{model}.{group}", model, func, bindings, {t.name: t for t in graph.tensors}, stored, values[out.name], out)


@cache
def tuning(name: str, group: int, machine: str = DEFAULT, state: State = ()) -> Problem:
    """The tuning problem of a group on a machine (or a variant of it, `VARIANTS`)."""
    if machine != "fast":
        return problem(cases(name)[group].func, machine_named(machine), state)
    plain, fast = tuning(name, group, DEFAULT, state), machine_named(machine)  # no number that it varies has a say in what is emitted
    return replace(plain, machine=fast, sketches=[replace(s, encoded=s.encoded.on(fast)) for s in plain.sketches], costs={})


def legal(p: Problem, sketch: int, count: int, seed: int = 0) -> list[Candidate]:
    """Some legal candidates of a sketch, drawn by a seed: those that keep its constraints and can be timed, of which no more are timed."""
    random = np.random.default_rng([seed, sketch])
    grid, found = p.space.grids[sketch], dict[Candidate, None]()
    for _ in range(8):
        drawn = list(dict.fromkeys((sketch, grid.values(int(r))) for r in random.random(300) * grid.size))
        kept = [c for c, legal in zip(drawn, p.legal(drawn)) if legal][:count]
        found.update((c, None) for c, cost in zip(kept, p.cost(kept)) if cost is not None)
        if len(found) >= min(count, grid.size // 2):
            return list(found)[:count]
    if found:
        return list(found)
    raise AssertionError(f"sketch {sketch} of {p.func.name} has no legal candidate among 2,400")


# ---------------------------------------------------------------- machines

VARIANTS = {
    "fast": {"hbm_bytes_per_s": 4, "l2_bytes_per_s": 3, "hop_cycles": 0.1, "fixed_us": 0.1, "per_core_us": 0.1},
    "slow": {"hbm_bytes_per_s": 0.2, "l2_bytes_per_s": 0.3, "hop_cycles": 5, "fixed_us": 3, "l2_usable_bytes": 0.0002},
}


@cache
def machine_named(name: str) -> Machine:
    """A built-in machine, or a variant of the default with some numbers of its file changed."""
    return edited(VARIANTS[name]) if name in VARIANTS else load_machine(name)


def edited(factors: dict[str, float], section: str = "") -> Machine:
    """The default machine with numbers of its file multiplied (in one section, or wherever the word stands)."""
    lines = ["name = \"variant\"", f"extends = \"{DEFAULT}\""]
    for word, factor in factors.items():
        place, old = next((p, n) for p, n in load_machine().sources.items() if p.endswith(f"{section}.{word}"))
        value = max(1, round(old.value * factor)) if isinstance(old.value, int) else old.value * factor
        lines.append(f'{place} = {{value = {value!r}, source = "a test", confidence = "estimate"}}')
    return parse_machine("\n".join(lines), "variant")
