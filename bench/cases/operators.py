"""Names of operators, dtypes and units as sources spell them -> as cases have them."""
from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# letters and digits of a name in CANN, PyTorch, Triton or a paper, without what tells a version (MatMulV3, ReduceSumD) -> ours
SPELLED = {
    "mm": "matmul", "gemm": "matmul", "linear": "matmul", "matmul": "matmul", "bmm": "batch_matmul", "batchmatmul": "batch_matmul",
    "transposebatchmatmul": "batch_matmul", "quantbatchmatmul": "quant_matmul", "quantmatmul": "quant_matmul",
    "groupedmatmul": "grouped_matmul", "groupgemm": "grouped_matmul", "groupedgemm": "grouped_matmul", "conv": "conv2d", "conv2d": "conv2d",
    "convolution": "conv2d", "conv2dbackpropfilter": "conv2d_dw", "conv2dbackpropinput": "conv2d_dx",
    "transdata": "trans_data", "tensormove": "copy", "memcpy": "copy", "identity": "copy", "stridedslice": "slice", "gatherd": "gather",
    "embedding": "gather", "broadcastto": "broadcast", "expand": "broadcast", "concat": "concat", "cat": "concat",
    "maskedfill": "masked_fill",
    "vectoradd": "add", "vadd": "add", "divide": "div", "multiply": "mul", "subtract": "sub", "realdiv": "real_div", "ln": "log",
    "softmax": "softmax", "logsoftmax": "log_softmax", "layernorm": "layernorm", "layernormalization": "layernorm", "rmsnorm": "rmsnorm",
    "addrmsnorm": "add_rmsnorm", "layernormxbackprop": "layernorm_grad", "layernormgrad": "layernorm_grad", "biasaddgrad": "bias_grad",
    "squaresum": "square_sum", "reducesum": "reduce_sum", "reducemean": "reduce_mean", "reducemax": "reduce_max", "reducemin": "reduce_min",
    "sum": "sum", "addn": "sum",
    "siluandmul": "swiglu", "silumul": "swiglu", "mean": "reduce_mean", "amax": "reduce_max", "amin": "reduce_min",
    "relugrad": "relu_grad", "sigmoidgrad": "sigmoid_grad", "tanhgrad": "tanh_grad", "softmaxgrad": "softmax_grad",
    "swiglu": "swiglu", "fastgelu": "gelu", "gelu": "gelu",
    "gelugrad": "gelu_grad", "relu": "relu", "ascendquant": "quantize_static", "dynamicquant": "dynamic_quant",
    "pertokenquant": "dynamic_quant", "bntrainingupdaterelu": "bn_relu", "maxpool": "maxpool", "avgpool": "avgpool",
    "flashattention": "flash_attention", "flashattentionscore": "flash_attention", "fusedinferattentionscore": "flash_attention",
    "promptflashattention": "flash_attention", "fa": "flash_attention", "attention": "flash_attention"}
DTYPES = {"float16": "fp16", "half": "fp16", "f16": "fp16", "bfloat16": "bf16", "float": "fp32", "float32": "fp32", "f32": "fp32",
          "i8": "int8", "s8": "int8", "w8a8": "int8", "i32": "int32"}
UNITS = {"µs": "us", "μs": "us", "usec": "us", "microseconds": "us", "msec": "ms", "milliseconds": "ms", "sec": "s", "seconds": "s",
         "cyc": "cycles", "tick": "cycles", "ticks": "cycles", "gb/s": "GB/s", "gbps": "GB/s", "tb/s": "TB/s"}


def operator_of(name: str) -> str:
    """Return the name that cases have for an operator; one that no table spells so stays, in small letters."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    short = re.sub(r"(v\d+)?d?$", "", plain)
    version = re.sub(r"v\d+$", "", plain)
    known = next((SPELLED[s] for s in (plain, version, short) if s in SPELLED), "")
    return known or (version if version != plain and "_" not in name else name.lower())


def near(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with up to two known names that look like it. Return "" where none does."""
    found = difflib.get_close_matches(name, sorted(set(known)), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""
