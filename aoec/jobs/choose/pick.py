"""Choice of the groups that a user wants tuned. They are given by names of nodes or types of operators, whole or with wildcards, or in
AOE's tune_ops_file."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.cann import op_types, tune_ops
from aoec.ir.graph.graph import Graph, Group

if TYPE_CHECKING:
    from aoec.jobs.choose.model_tasks import Task
    from aoec.jobs.compile.compiled_model import Ready
    from aoec.jobs.voice import Voice


@dataclass(frozen=True)
class Pick:
    """Patterns for names of nodes and for types of operators."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    def takes(self, group: Group, types: dict[str, str]) -> bool:
        """Return whether some node of a group is meant."""
        return any(fnmatchcase(n, p) for n in group.nodes for p in self.names) or \
            any(is_type(types[n], p) for n in group.nodes for p in self.types)

    def unused_patterns(self, graph: Graph) -> list[str]:
        """Return the patterns that mean no node of a graph."""
        used = {p for p in self.names if any(fnmatchcase(n.name, p) for n in graph.nodes)}
        used |= {p for p in self.types if any(is_type(n.op, p) for n in graph.nodes)}
        return [p for p in dict.fromkeys((*self.names, *self.types)) if p not in used]


def is_type(op: str, pattern: str) -> bool:
    """Return whether an operator is of a type, by whatever name."""
    return fnmatchcase(plain(op), plain(pattern))


def plain(word: str) -> str:
    """Return a type of operators as it is compared, by whatever name; versions may be in small letters too."""
    return op_types.plain(re.sub(r"v\d+$", "", word) if word.islower() else word)


def pick(text: str) -> Pick:
    """Return what `--only` says: AOE's file, where there is a file of that name; else names, types and wildcards between commas."""
    if Path(text).is_file():
        listed = tune_ops.read(text)
        return Pick(listed.names, listed.types)
    words = tuple(w for w in text.split(",") if w)
    if not words:
        raise CheckError("--only names nothing; give names of nodes or types of operators, such as MatMul,conv_*")
    return Pick(words, words)


def pick_tasks(ready: Sequence[Ready], only: str | None, voice: Voice) -> tuple[list[Task], list[Task]]:
    """Return the tasks to be tuned, and those that keep what they have; what --only names and no model has is said."""
    if only is None:
        return [t for r in ready for t in r.tasks], []
    asked = pick(only)
    chosen: list[Task] = []
    others: list[Task] = []
    for r in ready:
        types = {n.name: n.op for n in r.model.graph.nodes}
        for task in r.tasks:
            (chosen if asked.takes(task.group, types) else others).append(task)
        if unused := asked.unused_patterns(r.model.graph):
            voice.say(f"--only: no operator is named {', '.join(unused)}, or of that type")
    if not chosen and not Path(only).is_file():
        known = sorted({n.op for r in ready for n in r.model.graph.nodes})
        raise CheckError(f"--only {only} names no group that could be tuned{nearest(only, known)}")
    return chosen, others
