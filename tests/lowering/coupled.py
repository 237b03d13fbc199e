"""A small machine whose cores hold cube and vector both, made of the toy machine: no FIXPIPE, no bias table, MTE2 does not reorder."""
from __future__ import annotations

MADE_UP = 'source = "made up", confidence = "estimate"'


def _path(name: str, source: str, target: str, pipe: str) -> str:
    return (f'[paths.{name}]\nfrom = "{source}"\nto = "{target}"\npipe = "{pipe}"\n'
            f"bytes_per_cycle = {{value = 64, {MADE_UP}}}\nlatency_cycles = {{value = 5, {MADE_UP}}}\n")


TEXT = "\n".join([
    'name = "coupled"', 'extends = "toy"',
    'drops = ["cores.aic", "cores.aiv", "scopes.BT", "scopes.FB", "paths.l1_bt", "paths.l0c_gm", "tables.kf.fp32"]',
    'lacks = ["copy_gm_l1_nd2nz"]',
    '[cores.core]', 'pipes = ["S", "V", "M", "MTE1", "MTE2", "MTE3"]', f"count = {{value = 3, {MADE_UP}}}",
    *[f'[scopes.{name}]\ncore = "core"' for name in ("L1", "L0A", "L0B", "L0C")],
    f'[scopes.UB]\ncore = "core"\nsize_bytes = {{value = 32768, {MADE_UP}}}',
    _path("l0c_ub", "L0C", "UB", "V"), _path("ub_l1", "UB", "L1", "MTE3"),
    '[timing.copy_l0c_ub]\nbusy = "head + bursts * length * 256 * size / l0c_ub_rate"\nlatency = "l0c_ub_latency"',
    '[timing.copy_ub_l1]\nbusy = "bursts * length * 32 / ub_l1_rate"\nlatency = "ub_l1_latency"'])
