"""`tune_ops_file`: the operators that `aoe --job_type=2` is to tune, an object of two lists (aoepar_16_047).

`tune_ops_name` has names as they are after CANN's compiler has fused, as a profile lists them. `tune_ops_type` has types. An operator that
is fused out of one of a listed type is tuned too. Words are matched whole. An operator of either list is tuned. Types outside of OPAT's own
list are not.
"""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from aoec.base.errors import CheckError
from aoec.base.files.files import read_json

LISTS = ("tune_ops_name", "tune_ops_type")
# what operator tuning takes (aoepar_16_072, CANN 9.0), cubes and pooling first; its published list may lack a name or two at the end
_TYPES = """
AvgPool AvgPoolV2 AvgPool3D AvgPool3DGrad BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv1D Conv2D Conv2DCompress Conv2DBackpropInput
Conv2DBackpropFilter Conv3D Conv3DBackpropInput Conv3DBackpropFilter Deconvolution DeformableConv2D DepthwiseConv2D
DepthwiseConv2DBackpropInput DepthwiseConv2DBackpropFilter FullyConnection FullyConnectionCompress GEMM MatMul MatMulV2 MatMulV2Compress
MatMulV3
Abs AccumulateNV2 Add AddN Adds BatchNorm3D BiasAdd BiasAddGrad BNInfer BNTrainingReduce BNTrainingReduceGrad BNTrainingUpdate
BNTrainingUpdateGrad BNTrainingUpdateV2 ClipByNormNoDivSum ClipByValue DiagPartD Div DivNoNan DynamicRNN Elu EluGrad Exp ExpandD Floor
FloorDiv Gelu InstanceNorm L2Loss LambUpdateWithLrV2 LeakyRelu Log Log1p Maximum MaxPool MaxPool3D MaxPoolV3 Minimum Mul Muls Neg Pow PRelu
RealDiv ReduceAllD ReduceMaxD ReduceMeanD ReduceMinD ReduceSumD Relu ReluV2 ReluGradV2 Round Rsqrt RsqrtGrad Sigmoid Sign
SoftmaxCrossEntropyWithLogits Softplus SqrtGrad Square SquaredDifference SquareSumV1 SquareSumV2 StridedSliceD Sub Tanh TileD Unpack
"""
TYPES = frozenset(_TYPES.split())


@dataclass(frozen=True)
class TuneOps:
    """Names and types of operators."""

    names: tuple[str, ...]
    types: tuple[str, ...]


def read(path: str | Path) -> TuneOps:
    """Return what a tune_ops_file lists; either list may be missing, and not both. Raise CheckError where the file is none."""
    said = read_json(path)
    good = isinstance(said, dict) and said and set(said) <= set(LISTS) and all(
        isinstance(v, list) and all(isinstance(w, str) and w for w in v) for v in said.values())
    if not good:
        raise CheckError(f'{path} is no list of operators; it should say {{"tune_ops_name": ["conv_1"], "tune_ops_type": ["MatMul"]}}')
    return TuneOps(*(tuple(said.get(name, ())) for name in LISTS))


def text(ops: TuneOps) -> str:
    """Return the file; a list without words is left out."""
    return json.dumps({name: list(words) for name, words in zip(LISTS, (ops.names, ops.types)) if words}, indent=2) + "\n"
