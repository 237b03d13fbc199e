"""Rows of published.csv that gave a number or a reading of the machine, and so are no independent evidence of it: what each gave.

A row stands here where any figure of its kernel was used: its time, the time of one of its pipes, or the order that it shows.
"""
from __future__ import annotations

LOAD, LOCAL = "what a load costs that turns ND into NZ", "rows out of HBM to one core"
ADDRESS, ROWS = "what cores that read one address share", "rows of 128 bytes past L2"
TURN = "what HBM loses between reads and writes"
LATE = "what cores that end leave to those that share addresses"
CHIP = "which chip A2/A3-40aiv is"
LAYOUT = "requests of 512 bytes for rows of B"

READ_FROM: dict[str, str] = {
    # ---- counted rows
    "m0243": "the head of a tiling that is read at run time", "m0244": "the head of a tiling that is known when compiled",
    "m0261": "ragged rows",
    "m0274": LOAD, "m0275": LOAD,
    "m0278": f"{LATE}; the order of loads", "m0279": LATE, "m0280": LATE, "m0281": LATE, "m0282": f"{LATE}; the head of a cube instruction",
    "m0292": "cycles to issue an instruction", "m0293": "cycles to issue an instruction",
    "m0302": "cycles to issue a copy", "m0303": "gaps between short rows", "m0304": "the rate of a 910B1's HBM",
    "m0305": "rows of ND out of HBM into NZ", "m0312": "the rates of L2",
    "m0313": ADDRESS, "m0314": ROWS, "m0315": ADDRESS, "m0316": ROWS,
    "m0323": "the cleared state of L2, banks of UB", "m0324": f"the cleared state of L2, {TURN}",
    "m0336": "latency of HBM", "m0339": "crowding of HBM",
    "m0346": f"{LOCAL}, {LAYOUT}", "m0347": LAYOUT, "m0348": f"{LOCAL}, {LAYOUT}", "m0349": f"{LOCAL}, {LAYOUT}", "m0350": LOCAL,
    "m0426": ADDRESS,
    # ---- the 950 generation (of the sample of 8192^3 the machine file does not name the steps; these are the likely ones)
    "m0283": "a cube instruction alone", "m0291": "the head of a cube instruction", "m0317": "cycles to issue a copy",
    "m0319": "the rate of a 950PR's HBM", "m0322": ADDRESS,
    # ---- rows that are not counted
    **dict.fromkeys(("m0447", "m0448", "m0449", "m0450", "m0470", "m0471", "m0472", "m0473", "m0474"), CHIP),
    **dict.fromkeys(("m0483", "m0485", "m0486", "m0490", "m0491", "m0492", "m0493", "m0494"), TURN),
    # ---- vendor kernels and whole models
    "m0537": "the rate of a 910A's HBM",
    **dict.fromkeys(("m0725", "m0726", "m0727", "m0728", "m0729", "m0730"), "the rate of a 310B1's DDR"),
}
