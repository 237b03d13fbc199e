"""Laws of banks: merging is commutative, associative and idempotent; a line of JSON gives back its record."""
from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import reduce
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.bank.bank import Bank
from aoec.bank.record import PROOFS, Key, Record, flat, join, parse_record, show_record, unflat

keys = st.builds(Key, st.sampled_from(["f1", "f2"]), st.sampled_from(["toy", "Ascend910B3"]), st.just("h"), st.just("m"), st.just("cold"),
                 st.sampled_from(["modelled", "measured"]))
few = st.integers(0, 3)
records = st.builds(
    lambda key, label, trace, ticks, trials, searched, seed, search, proof, verified, created, slack: Record(
        key, label, trace, ticks + 5, ticks, max(0, ticks - slack), trials, searched, seed, search, proof, verified, "aoec", created),
    keys, st.sampled_from(["x", "ü"]), st.sampled_from(["t1\n", "t2\n", "t3\n"]), few, few, few, few, st.sampled_from(["a", "b"]),
    st.sampled_from(PROOFS), st.booleans(), st.sampled_from(["", "2025-11-21T10:00:00Z"]), few)
any_text = st.text(st.characters(exclude_categories=("C", "Zl", "Zp", "Zs")), max_size=20)


@given(records, records, records)
def test_join_is_a_semilattice(a, b, c):
    b, c = replace(b, key=a.key), replace(c, key=a.key)
    assert join(a, a) == a and join(a, b) == join(b, a)
    assert join(join(a, b), c) == join(a, join(b, c))
    assert join(a, b).ticks == min(a.ticks, b.ticks)


@given(records, any_text, any_text)
def test_a_line_gives_back_its_record(record, label, trace):
    record = replace(record, label=label, trace=trace + "\n")
    assert parse_record(show_record(record)) == record == unflat(flat(record))
    assert parse_record(show_record(record, times=False)) == replace(record, created="")


def fill(folder: str, name: str, items: list[Record]) -> Bank:
    bank = Bank.open(Path(folder) / f"{name}.db")
    bank.put_all(items)
    return bank


@settings(max_examples=25, deadline=None)
@given(st.lists(records, max_size=6), st.lists(records, max_size=6))
def test_merging_banks_is_commutative_and_idempotent(one, two):
    with tempfile.TemporaryDirectory() as folder:
        a, b, a2, b2 = (fill(folder, n, items) for n, items in (("a", one), ("b", two), ("a2", one), ("b2", two)))
        a.merge(b)
        b2.merge(a2)
        merged = list(a.lines())
        assert merged == list(b2.lines())
        a.merge(b)
        a.merge(a2)
        assert list(a.lines()) == merged
        expected: dict[Key, list[Record]] = {}
        for r in one + two:
            expected.setdefault(r.key, []).append(r)
        assert a.list() == tuple(reduce(join, expected[k]) for k in sorted(expected))
