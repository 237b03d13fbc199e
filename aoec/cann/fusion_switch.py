"""`--fusion_switch_file`: fusions of CANN's compiler that are not to be made (atlasatcparam_16_0053).

All are on unless the file says "off". This module knows the documented fusions into a producer's kernel that a plan may have to undo.
Without such a fusion, an operator's key is that of the operator alone. The families are our own: one for the producer, and one for the
operator that follows it.
"""
from __future__ import annotations

import json
from collections.abc import Collection

# (family of the producer, of what follows) -> the pass that makes one kernel of them (graphubfusionref, atlasrr_30)
UB_FUSIONS = {
    ("conv2d", "elementwise"): "TbeConv2DEltwisePass",
    ("matmul", "elementwise"): "ATbeMatmulElemwiseFusionPass",
    ("reduce", "elementwise"): "TbeReduceElemwiseFusionPass",
}


def text(passes: Collection[str]) -> str:
    """Return the file that turns these UB fusions off and leaves all others as they are."""
    return json.dumps({"Switch": {"GraphFusion": {}, "UBFusion": dict.fromkeys(sorted(passes), "off")}}, indent=2) + "\n"
