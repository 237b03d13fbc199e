"""What the sources of published products state of their tilings beyond the row's own text: facts of the cases' pages, by product.

Words that the row has itself stand; of the others these are taken over.
"""
from __future__ import annotations

import re

from bench.cases.words import parse_tile

GUIDE, SAMPLE = r"best-practice guide", r"/matmul_high_performance/"
# (source, shape, variant) -> words, with where they stand in the source (mirror-cann/asc-devkit@82b89a1)
STATED = (
    # docs/zh/guide, Matmul cases: pure cube mode, constant tiling, UnitFlag
    (GUIDE, r"M=128 N=30720 K=64\b", r"", "base=128x256x64 step=4 depth=8"),
    # MDL template; the steps before it are of the default template, Norm
    (GUIDE, r"M=128 N=30720 K=1024\b", r"", "base=128x256x64 single=128x1280x1024 step=4 depth=8"),
    # MTE2 preload: A is whole in one slot, B in two
    (GUIDE, r"M=128 N=24576 K=512\b", r"", "base=128x128x64 single=128x1024x512 stepka=8 stepkb=8 deptha=8 depthb=16 mdl"),
    # ND2NZ on vector cores, in front of it
    (GUIDE, r"M=1024 N=4095 K=1024\b", r"in-path", "base=128x256x64 single=128x1408x1024 step=4 mdl"),
    # staggered K
    (GUIDE, r"M=768 N=2048 K=6144\b", r"", "base=128x256x64 single=128x512x6144 mdl"),
    # NBuffer33, before and after
    (GUIDE, r"M=256 N=512 K=192\b", r"", "base=128x256x64 single=256x256x192 step=3 stepm=2 mdl"),
    # the nine steps of 8192^3: SetL1 for Norm; with MDL the tiling API's own depths (README: depthA1 = 4 in two slots; depthB1 = 8, which
    # stays where step 5 sets those of A alone)
    (SAMPLE, r"M=N=K=8192\b", r"\bMDL$", "stepka=2 deptha=4 stepkb=4 depthb=8"),
    (SAMPLE, r"M=N=K=8192\b", r"depthA1=16", "stepkb=4 depthb=8"))


def stated(source: str, shape: str, variant: str) -> dict[str, tuple[int, ...]]:
    """Return the words that a row's source states of its tiling."""
    for where, product, which, words in STATED:
        if re.search(where, source) and re.search(product, shape) and re.search(which, variant):
            return dict(parse_tile(words).words)
    return {}
