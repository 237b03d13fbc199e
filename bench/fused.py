"""The fastest fused mapping of chains of operators, proved, and beside a peer that searches the same in the same run.

    python bench/fused.py [chain1 chain8 mobilenet_28 ...] [--buffer-bits 134217728] [--rows 65536]
                          [--beside accelforge [--beside-python PYTHON]] [--json]

Each case has a line. It has the modelled latency, and the CPU seconds of the search with its proof. It has the number of mappings in the
space (of each operator, summed; and of the whole chain), and the number of costs of partial mappings that were computed. The machine is
made up: GM and a buffer, each with a rate in bits a second, and a rate of computation. Its numbers are those with which the peer's own
example was timed. The size of the space is counted after the search, and the CPU seconds of that are printed apart. With --beside the peer
maps the same cases on the same machine. Where the interpreter does not have the peer, a line says so.

Both models count data movement alike. For all operators of the loop, ours keeps the part of a sliding tile that the next trip uses.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.ir.text.parse import parse_meaning
from aoec.search.fused.chain import Chain, Machine, chain_of
from aoec.search.fused.fused import Search, fuse
from aoec.search.fused.mappings import size
from bench import beside_fused

GM_RATE, BUFFER_RATE, STEP_RATE, BUFFER_BITS = 1.6e12, 8e12, 3.5e13, 134217728
WIDTH, BITS = 256, 16  # of chains of products
# two inverted residuals at 28 x 28: extents of AccelForge's example of this name
MOBILENET = """
mobilenet_28(T0[p0: 28, q0: 28, n0: 24], WA0[n0, t0: 192], WD0[r0: 3, s0: 3, t0], WB0[t0, n1: 24], WA1[n1, t1: 192],
             WD1[r1: 3, s1: 3, t1], WB1[t1, n2: 24]; p1: 28, q1: 28, p2: 28, q2: 28) -> T2[p2, q2, n2] {
  TA0[p0, q0, t0] += T0[p0, q0, n0] * WA0[n0, t0]
  TB0[p1, q1, t0] += TA0[p1 + r0, q1 + s0, t0] * WD0[r0, s0, t0]
  T1[p1, q1, n1] += TB0[p1, q1, t0] * WB0[t0, n1]
  TA1[p1, q1, t1] += T1[p1, q1, n1] * WA1[n1, t1]
  TB1[p2, q2, t1] += TA1[p2 + r1, q2 + s1, t1] * WD1[r1, s1, t1]
  T2[p2, q2, n2] += TB1[p2, q2, t1] * WB1[t1, n2]
}
"""

Row = dict[str, Any]


def products(count: int, rows: int) -> Chain:
    """Return a chain of equal products, T[m, n] of so many rows."""
    arguments = [f"T0[m: {rows}, n0: {WIDTH}]", *(f"W{i}[n{i}, n{i + 1}: {WIDTH}]" for i in range(count))]
    lines = [f"T{i + 1}[m, n{i + 1}] += T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]" for i in range(count)]
    return chain_of(parse_meaning(f"chain({', '.join(arguments)}) -> T{count}[m, n{count}] {{\n" + "\n".join(lines) + "\n}"), BITS)


def case(name: str, rows: int) -> tuple[Chain, Row]:
    """Return a chain by its name, and what the peer is told of it. Raise ValueError where the name is unknown."""
    if name == "mobilenet_28":
        return chain_of(parse_meaning(MOBILENET), 8), {"name": name, "example": "mobilenet_28.yaml"}
    count = name.removeprefix("chain")
    if not count.isdigit() or not 0 < int(count) <= 64:
        raise ValueError(f"{name}: the cases are mobilenet_28 and chainN, with N from 1 to 64 products")
    return products(int(count), rows), {"name": name, "products": int(count), "m": rows, "n": WIDTH, "bits": BITS}


def line(name: str, chain: Chain, machine: Machine) -> Row:
    """Return the result of the search for one case."""
    started = time.process_time()
    found = fuse(chain, machine)
    searched = time.process_time()
    alone, whole = size(Search(chain, machine))
    return {"name": name, "seconds": found.seconds, "space": alone, "mappings": whole, "evaluated": found.rows,
            "cpu_s": searched - started, "count_s": time.process_time() - searched}


def text(row: Row) -> str:
    """Return a row in words."""
    return (f"{row['name']:13} {row['seconds'] * 1e6:,.2f} us proved; {row['space']:.3g} mappings of operators, {row['mappings']:.3g} of "
            f"the chain; {row['evaluated']:,} evaluated, {row['cpu_s']:.2f} CPU s; size counted in {row['count_s']:.2f}")


def peer_text(row: Row, theirs: Row) -> str:
    """Return the peer's row beside ours."""
    ratio = row["seconds"] / theirs["seconds"]
    said = "equal" if abs(ratio - 1) < 1e-6 else f"ours is {100 * abs(ratio - 1):.2f} % {'less' if ratio < 1 else 'more'}"
    return (f"{row['name']:13} {theirs['seconds'] * 1e6:,.2f} us, {said}; {theirs['space']:.3g} mappings of operators; "
            f"{theirs['evaluated']:,.0f} evaluated, {theirs['cpu_s']:.2f} CPU s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("cases", nargs="*", default=["chain1", "chain2", "chain4", "chain8", "mobilenet_28"])
    parser.add_argument("--buffer-bits", type=int, default=BUFFER_BITS)
    parser.add_argument("--rows", type=int, default=65536, help="of the tensors in a chain of products")
    parser.add_argument("--beside", choices=("accelforge",), help="a peer that maps the same cases in the same run")
    parser.add_argument("--beside-python", default=sys.executable, metavar="PYTHON", help="the interpreter that has the peer")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    machine = Machine(GM_RATE, BUFFER_RATE, STEP_RATE, args.buffer_bits)
    try:
        cases = [(name, *case(name, args.rows)) for name in args.cases]
        rows = []
        for name, chain, _ in cases:
            rows.append(line(name, chain, machine))
            if not args.json:
                print(text(rows[-1]), flush=True)
        question = {"gm_rate": GM_RATE, "buffer_rate": BUFFER_RATE, "step_rate": STEP_RATE, "buffer_bits": args.buffer_bits,
                    "cases": [told for _, _, told in cases]}
        theirs = beside_fused.run(question, args.beside_python) if args.beside else None
    except (ValueError, RuntimeError) as e:
        print(f"fused: {e}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"rows": rows, "beside": theirs}, indent=1))
    elif theirs:
        print(f"accelforge {theirs['version']}, {theirs['import_s']:.2f} CPU s of imports:")
        print(*(peer_text(row, other) for row, other in zip(rows, theirs["rows"], strict=True)), sep="\n")
    elif args.beside:
        print(f"beside accelforge: skipped, for {args.beside_python} does not have it")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
