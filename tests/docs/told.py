"""What a page shows of a command's answer, held against what came: words as they are, numbers within a quarter, `...` for what is left
out."""
from __future__ import annotations

import re

NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"


def same(shown: str, came: str) -> bool:
    """Words alike, numbers within a quarter or 0.01; `...` is any text."""
    parts = re.split(rf"(\.\.\.|{NUMBER})", " ".join(shown.split()))
    pattern = "".join(".*" if p == "..." else f"({NUMBER})" if re.fullmatch(NUMBER, p) else re.escape(p) for p in parts)
    found = re.fullmatch(pattern, " ".join(came.split()))
    wanted = [p for p in parts if re.fullmatch(NUMBER, p)]
    return found is not None and all(near(a, b) for a, b in zip(wanted, found.groups()))


def near(a: str, b: str) -> bool:
    x, y = (float(n.replace(",", "")) for n in (a, b))
    return abs(x - y) <= max(0.25 * abs(x), 0.01)


def missing(shown: str, came: str) -> list[str]:
    """The first line of `shown` that is not in `came`, behind the one before it; none where all are."""
    left = iter(came.splitlines())
    return [line for line in shown.splitlines() if line.strip() not in ("", "...") and not any(same(line, c) for c in left)][:1]
