"""Every primitive does what its docstring says: before, call, after."""
import inspect
import re
from pathlib import Path
from textwrap import dedent

import pytest

from aoec import primitives
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show

WORDS = primitives.primitives()


@pytest.mark.parametrize("word", sorted(WORDS))
def test_example(word: str) -> None:
    found = re.search(r"before:\n(.*)\ncall:\n(.*)\nafter:\n(.*)", inspect.getdoc(WORDS[word]) or "", re.DOTALL)
    assert found, f"{word} has no example"
    before, call, after = (dedent(part) for part in found.groups())
    done = primitives.apply(parse_func(before), parse_trace(f"sched s {{ {call} }}"))
    assert show(done) == show(parse_func(after))


def test_the_folder_is_the_registry() -> None:
    folder = Path(inspect.getfile(primitives)).parent
    support = {"__init__", "primitive", "nest", "patterns", "softmax", "one_pass", "samples", "whole_parts"}
    assert {p.stem for p in folder.glob("*.py")} - support == set(WORDS)
