"""Near shapes: funcs whose texts differ in numbers alone are one family; the schedules of one are worth a try in another."""
from __future__ import annotations

import math
import re

from aoec.base.keys import digest

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")  # sizes and constants; not the digits of a name or a dtype


def family(func: str) -> str:
    """Return a hash of a func's text without its numbers, 16 hex digits; "" of no text."""
    return digest(NUMBER.sub("#", func))[:16] if func else ""


def distance(one: str, other: str) -> float:
    """Return how far apart two funcs of one family are: the ratios of their numbers, as logarithms to base 2, summed up."""
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return sum(abs(math.log2((float(a) + 1) / (float(b) + 1))) for a, b in pairs if a != b)
