"""Types of operators in CANN's words and in ours: the one place that says which is which.

CANN's are those of its operator lists and profiles (aoepar_16_072; `OP Type` of msprof's op_summary). Some have several by release; the
first stands in results. What CANN has no operator for keeps our word.
"""
from __future__ import annotations

import re

_SPELT = """
abs Abs, acos Acos, acosh Acosh, add Add, adds Adds, asin Asin, asinh Asinh, atan Atan, atanh Atanh, attention PromptFlashAttention,
avg_pool AvgPool AvgPoolV2, batch_norm BNInfer, bit_and BitwiseAnd, bit_or BitwiseOr, bit_xor BitwiseXor, cast Cast, ceil Ceil, celu
CeluV2, clip ClipByValue, concat ConcatD, conv2d Conv2D DepthwiseConv2D, cos Cos, cosh Cosh, depth_to_space DepthToSpace, dequantise
AscendDequant, div RealDiv, elu Elu, equal Equal, erf Erf, exp Exp, expand ExpandD, floor Floor, from_nc1hwc0 TransData, from_nz
TransData, gather GatherV2, gather_elements GatherElements, gelu GeluV2 Gelu, gelu_tanh Gelu, global_avg_pool ReduceMeanD, greater
Greater, greater_equal GreaterEqual, hard_sigmoid HardSigmoid, is_inf IsInf, is_nan IsNan, layer_norm LayerNorm, leaky_relu LeakyRelu,
less Less, less_equal LessEqual, log Log, log_softmax LogSoftmaxV2, lrn LRN, matmul MatMulV2 MatMulV3 BatchMatMulV2 BatchMatMulV3,
max_pool MaxPool MaxPoolV3, maximum Maximum, minimum Minimum, mish Mish, mod FloorMod, mul Mul, muls Muls, pad PadD, power Pow, prelu
PRelu, quantise AscendQuant, reciprocal Reciprocal, reduce_max ReduceMaxD, reduce_mean ReduceMeanD, reduce_min ReduceMinD, reduce_sum
ReduceSumD, relu Relu, requantise AscendRequant, reshape Reshape, rms_norm RmsNorm, round Round, rsqrt Rsqrt, selu Selu, sigmoid Sigmoid,
sign Sign, silu Swish, sin Sin, sinh Sinh, slice StridedSliceD, softmax SoftmaxV2, softplus Softplus, softsign Softsign, sqrt Sqrt, sub
Sub, swiglu SwiGlu, tan Tan, tanh Tanh, to_nc1hwc0 TransData, to_nz TransData, transpose TransposeD, where Select
"""
CANN = {ours: tuple(theirs) for ours, *theirs in (entry.split() for entry in _SPELT.split(","))}
# words of CANN, of ONNX and of ours that are one operator, in small letters without _, versions, and the D of attributes
ALIASES = {"ascenddequant": "dequantise", "ascendquant": "quantise", "ascendrequant": "requantise", "averagepool": "avgpool",
           "batchmatmul": "matmul", "batchnormalization": "batchnorm", "bitwiseand": "bitand", "bitwiseor": "bitor", "bitwisexor": "bitxor",
           "bninfer": "batchnorm", "clipbyvalue": "clip", "conv": "conv2d", "conv2dcompress": "conv2d", "conv2dpacked": "conv2d",
           "fastgelu": "gelu", "flashattentionscore": "attention", "floormod": "mod", "fromnc1hwc0": "transdata", "fromnz": "transdata",
           "fullyconnection": "matmul", "fusedinferattentionscore": "attention", "gelutanh": "gelu", "gemm": "matmul",
           "globalaveragepool": "reducemean", "globalavgpool": "reducemean", "layernormalization": "layernorm", "matmulcommon": "matmul",
           "matmulpacked": "matmul", "pooling": "maxpool", "power": "pow", "promptflashattention": "attention", "realdiv": "div",
           "rmsnormalization": "rmsnorm", "select": "where", "stridedslice": "slice", "swish": "silu", "tonc1hwc0": "transdata",
           "tonz": "transdata"}


def types_of(ours: str) -> tuple[str, ...]:
    """CANN's types of one of our operators, by release; none where it has none."""
    return CANN.get(ours.removesuffix("_packed"), ())


def type_of(ours: str) -> str:
    """CANN's type of one of our operators, or its own name where CANN has none."""
    return next(iter(types_of(ours)), ours)


def plain(name: str) -> str:
    """The word that all sides have for a type of operators: MatMulV3, BatchMatMulV2 and matmul are matmul."""
    small = name if name.islower() else re.sub(r"(?<![\dN])D$", "", re.sub(r"V\d+$", "", name))
    small = small.replace("_", "").lower()
    return ALIASES.get(small, small)
