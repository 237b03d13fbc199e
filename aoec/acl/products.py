"""Which product a SoC is, by its name as the library says it."""
from __future__ import annotations

import re

from aoec.base.npu_errors import UnsupportedProduct

# "Ascend910B" alone is a part of the first generation; "Ascend910B1" to "B4" are of the second
NAMES = ((r"Ascend910(A|B|ProA|ProB|PremiumA)", 1001), (r"Ascend310P\d+", 2002), (r"Ascend910B[1-4](C|-1)?", 2201),
         (r"Ascend910_93\w+", 2201), (r"Ascend310B\d+", 3002), (r"Ascend950\w*", 3510))
WRITTEN = (2201, 2002, 1001)  # products that kernels are written for
ABORTS = (2201,)  # products on which work of a stream can be aborted


def product_of(soc: str) -> int:
    """Return the product of a SoC; UnsupportedProduct where no kernel is written for it."""
    found = next((p for pattern, p in NAMES if re.fullmatch(pattern, soc)), 0)
    if found not in WRITTEN:
        what = f"product {found}" if found else "of no product that aoec knows"
        raise UnsupportedProduct(f"the device is {soc}, {what}; aoec writes kernels for products {', '.join(map(str, WRITTEN))} "
                                 "(Ascend910B1 to B4 and 910_93; Ascend310P; Ascend910A)")
    return found
