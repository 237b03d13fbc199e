"""How many groups of networks have an HIVM text, whether the vendor's compiler front half takes all of those, and why others have none.

    python bench/hivm.py --network resnet50 bert-base ... [--target Ascend910B3] [--check-python .vendor]

Compiles networks of the zoo in fp16 with an empty bank, batch 1, default schedules and one launch a group, and writes each program as
HIVM text. With --check-python each distinct text is verified and lowered by bishengir-opt of the wheel ascendnpu-ir. It prints a row for
each network, a line for each reason, and ends with exit code 1 if a text is refused. Nothing is run: no text was ever on an NPU.
"""
from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.base.errors import CapacityError, UnsupportedError
from aoec.hivm.kernel import write_module
from aoec.hivm.verifier import verify
from aoec.hivm.wheel import Wheel, find_wheel
from aoec.target.machine import load
from bench.ascendc import NAMES, programs
from bench.networks import NETWORKS

HEAD = ("| network | target | groups | carried | share | distinct texts | verified |", "|---|---|---:|---:|---:|---:|---:|")


class Count:
    """What came of the texts of all networks. `refused`: what the verifier said, with a group that it said it of."""

    def __init__(self, wheel: Wheel | None) -> None:
        self.wheel, self.groups, self.carried = wheel, 0, 0
        self.verdicts: dict[str, str] = {}  # distinct text -> why it is refused, or nothing
        self.routines: set[str] = set()

    def verdict(self, text: str, name: str) -> None:
        """Verify a text that is not known yet, and note the verdict. Without a wheel, only note the text."""
        plain = text.replace(f"@{name}", "@kernel").partition("module attributes")[2]
        if self.wheel is None or plain in self.verdicts:
            self.verdicts.setdefault(plain, "")
            return
        found = verify(text, self.wheel)
        self.verdicts[plain] = found.refusals[0].sentence() if found.refusals else ""
        self.routines |= set(found.routines)


def rows(network: str, target: str, count: Count) -> Iterator[str]:
    """Yield the row of a network, and a line for each reason."""
    total, carried, before, lacking = 0, 0, len(count.verdicts), Counter[str]()
    for program in programs(network, target):
        total += 1
        try:
            count.verdict(write_module(program, load(target)), program.name)
            carried += 1
        except (UnsupportedError, CapacityError) as e:
            lacking[str(e)] += 1
    count.groups, count.carried = count.groups + total, count.carried + carried
    new = list(count.verdicts.values())[before:]
    good = "-" if count.wheel is None else str(new.count(""))
    yield f"| {network} | {target} | {total} | {carried} | {carried / max(total, 1):.0%} | {len(new)} | {good} |"
    yield from (f"    {n} {why}" for why, n in lacking.most_common())
    yield from (f"    REFUSED: {why}" for why in new if why)


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, after the rows that were asked for are printed; 1 if the verifier refuses a text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", choices=sorted(NETWORKS), default=NAMES, metavar="NAME")
    parser.add_argument("--target", default="Ascend910B3", metavar="NAME")
    parser.add_argument("--check-python", metavar="PYTHON|DIR", 
                        help="an environment with the wheel ascendnpu-ir; without it nothing is verified")
    args = parser.parse_args(argv)
    count = Count(find_wheel(args.check_python) if args.check_python else None)
    print("\n".join(HEAD), flush=True)
    for network in args.network:
        print("\n".join(rows(network, args.target, count)), flush=True)
    refused = sum(1 for why in count.verdicts.values() if why)
    print(f"\n{count.carried} of {count.groups} groups ({count.carried / max(count.groups, 1):.1%}) are carried by the words of HIVM, in "
          f"{len(count.verdicts)} distinct texts.")
    if count.wheel is None:
        print("None of them was verified: --check-python names an environment with the wheel ascendnpu-ir.")
    else:
        print(f"{len(count.verdicts) - refused} of {len(count.verdicts)} are verified and lowered by {count.wheel.name}, to "
              f"{len(count.routines)} routines of its library. None was ever on an NPU.")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
