"""Two tiny kernels as sources, by product: one whose values are known, for self-tests, and an empty one, for the time of a launch."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

ELEMENTS = 128
NAME, EMPTY = "aoec_known_good", "aoec_empty"
CORE_TYPES = {2201: "KERNEL_TYPE_AIV_ONLY", 2002: "KERNEL_TYPE_AICORE", 1001: ""}
HEAD = '#include "kernel_operator.h"\n\nusing namespace AscendC;\n\nextern "C" __global__ __aicore__ void '
ADD = f"""
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, {4 * ELEMENTS});
    pipe.Destroy();
    LocalTensor<half> x = ub.GetWithOffset<half>({ELEMENTS}, 0);
    LocalTensor<half> y = ub.GetWithOffset<half>({ELEMENTS}, {2 * ELEMENTS});
    GlobalTensor<half> gx;
    gx.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x_gm));
    GlobalTensor<half> gy;
    gy.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y_gm));
    DataCopy(x, gx, {ELEMENTS});
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Add(y, x, x, {ELEMENTS});
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(gy, y, {ELEMENTS});
    PipeBarrier<PIPE_ALL>();
"""


@dataclass(frozen=True)
class KnownGood:
    """A kernel with arguments and the values that it must give: `inputs` are its first arguments, one output of the size of `expected` the
    last."""

    path: Path
    name: str
    core_type: str
    blocks: int
    inputs: tuple[bytes, ...]
    expected: bytes


def known_good_source(product: int) -> tuple[str, str, str]:
    """Return (name, source, core type) of a kernel that adds a tensor to itself."""
    kind = CORE_TYPES[product]
    return NAME, f"{HEAD}{NAME}(GM_ADDR x_gm, GM_ADDR y_gm)\n{{{_task(kind)}{ADD}}}\n", kind


def empty_source(product: int, core_type: str | None = None) -> tuple[str, str, str]:
    """Return (name, source, core type) of a kernel that does nothing, with one argument."""
    kind = CORE_TYPES[product] if core_type is None else core_type
    return EMPTY, f"{HEAD}{EMPTY}(GM_ADDR x_gm)\n{{{_task(kind)}\n}}\n", kind


def known_good(path: Path, product: int) -> KnownGood:
    """Return the known-good kernel whose source was compiled to that object."""
    x = (np.arange(ELEMENTS) % 61 - 30).astype(np.float16)
    return KnownGood(path, NAME, CORE_TYPES[product], 1, (x.tobytes(),), (x + x).tobytes())


def _task(kind: str) -> str:
    return f"\n    KERNEL_TASK_TYPE_DEFAULT({kind});" if kind else ""
