"""The law of rewrites: pattern and replacement are the same, on random shapes, dtypes, orders and values; a wrong rule is seen."""
from __future__ import annotations

from importlib.resources import files
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.frontend.rewrites import library
from aoec.frontend.rewrites.law import broken, check_laws, draw
from aoec.ir.graph.rule import Rule

RULES = [r for subject in library.subjects() for r in library.rules(subject)]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_replacement_is_what_its_pattern_is(rule: Rule, seed: int) -> None:
    sample = draw(rule, Random(seed))
    assert sample is not None
    assert broken(sample) == ""


WRONG = [
    ("gelus", "x * 0.5 * u", "x * 0.6 * u"), ("gelus", "u = 1 + e", "u = 1.5 + e"), ("gelus", "~0.7071067811865476", "~0.8"),
    ("gelus", "+ ~0.044715 * x * x * x", "+ ~0.054715 * x * x * x"), ("gelus", "(1 + ~0.044715", "(1 + ~0.054715"),
    ("gates", "y = mul(x, s)", "y = add(x, s)"), ("gates", "[*zeros(n), h], sizes", "[*zeros(n), 0], sizes"),
    ("row_norms", "y = layer_norm(x; epsilon=e)", "y = layer_norm(x; epsilon=e * 2.0)"),
    ("row_norms", "y = rms_norm(x; epsilon=e)", "y = layer_norm(x; epsilon=e)"), ("row_norms", "x, s, bias; ", "x, bias, s; "),
    ("biases", "trans_a=ta, trans_b=tb)\n}", "trans_a=ta)\n}"), ("sums", "add(a, b)", "add(a, a)"),
    ("column_scales", "select(tb == 1, c, 1), select(tb == 1, 1, c)", "1, c"),
    ("column_scales", "mul(b, reshape(s; shape=[c]))", "relu(b)"),
    ("row_halves", "*ones(n), -1, 1])", "*ones(n), 1, 1])"), ("row_halves", "mul(halves, reshape(cos", "mul(turned, reshape(cos"),
    ("image_turns", "perm=[0, 2, 3, 1]", "perm=[0, 3, 2, 1]"), ("identities", "scalar=0.0", "scalar=1.0"),
    ("identities", "pad=[0, 0, 0, 0]", "pad=p"), ("identities", "starts=b, sizes=a, steps=[*ones(n)]", "starts=b, sizes=a, steps=d"),
    ("identities", "lo=-inf", "lo=b")]


@pytest.mark.parametrize("subject, right, wrong", WRONG)
def test_a_wrong_rule_is_seen(subject: str, right: str, wrong: str) -> None:
    text = files(library.FOLDER).joinpath(subject + library.SUFFIX).read_text("utf-8")
    assert right in text
    with pytest.raises(CheckError, match="is false"):
        check_laws([r for r in library.read(text.replace(right, wrong)) if r not in RULES], samples=60)
