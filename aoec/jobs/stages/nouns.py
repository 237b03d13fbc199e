"""Texts that hold another noun than a command wants: said by name, with what makes the one that is wanted."""
from __future__ import annotations

import re

from aoec.base.errors import CheckError

FIRST = re.compile(r"(?:\s|#[^\n]*\n)*(graph|plan|func|sched|program)\b")
NAMES = {"graph": "a graph", "plan": "a plan", "func": "a func", "sched": "a schedule", "program": "a program"}
MADE = {"graph": "aoec import makes one of an ONNX model",
        "plan": "aoec plan makes one of a graph, and aoec compile --dump writes model.plan",
        "sched": "aoec search finds one for a func",
        "func": "aoec lower makes one of a group of a fused graph, or of an operator by name",
        "program": "aoec emit makes one of a scheduled func"}


def need(noun: str, text: str, source: str) -> None:
    """Raise CheckError where the text begins as another noun does."""
    found = FIRST.match(text)
    if found and found[1] != noun:
        raise CheckError(f"this is {NAMES[found[1]]}, and {NAMES[noun]} is wanted here: {MADE[noun]}", source=source)
