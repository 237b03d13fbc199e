"""The table of calls: every instruction has a row, and each product has its call or a sentence why not."""
from __future__ import annotations

import pytest

from aoec.ascendc.calls import WRITTEN, check_call, product_of, release_of, table
from aoec.ascendc.function import Site
from aoec.ascendc.kernel import FUNCTIONS
from aoec.base.errors import UnsupportedError
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.machine import load, targets
from tests.ascendc.words import dtypes_of


def test_every_instruction_has_a_row() -> None:
    t = table()
    assert t.calls.keys() == INSTRUCTIONS.keys()
    for name, row in t.calls.items():
        assert row.call and row.fields and row.units, name
        assert t.page(row.page) != row.page, f"{name}: the page must begin with a key of [pages]"
        assert {*row.lacks, *row.types, *row.reserves, *row.framework} <= t.products.keys(), name
        assert all(len(why) > 10 for why in row.lacks.values()), name
        assert not row.lacks.keys() & row.types.keys(), f"{name}: a product that lacks the call takes no types of it"


def test_products_are_written_or_have_a_sentence() -> None:
    """And what the table says of a call on a product whose page does not list it is a sentence too."""
    t = table()
    assert {*WRITTEN, *t.unwritten} == t.products.keys() and not t.unwritten.keys() & {*WRITTEN}
    for row in t.calls.values():
        assert all(len(why) > 20 for why in row.unlisted.values()) and not row.unlisted.keys() & row.lacks.keys(), row.name
    with pytest.raises(UnsupportedError, match=r"Ascend310B1 is of product 3002.*no page that was read"):
        product_of(load("Ascend310B1"))


@pytest.mark.parametrize("product", WRITTEN)
@pytest.mark.parametrize("op", INSTRUCTIONS)
def test_each_product_has_a_call_or_a_sentence(op: str, product: str) -> None:
    """Of all dtypes that an instruction takes, each becomes a function or a refusal that names instruction and product; where the table
    says no lack, one becomes a function."""
    written = 0
    for dtypes in dtypes_of(op):
        try:
            check_call(op, product, dtypes[0])
            text = FUNCTIONS[op](Site(op, dtypes, product, release_of("8.5")))
        except UnsupportedError as e:
            assert op in str(e) and (product in str(e) or "aoec writes" in str(e) or "width" in str(e)), str(e)
        else:
            written += 1
            assert text.startswith(f"__aicore__ inline void {op}(") and text.endswith("\n}")
    assert bool(written) == (product not in table().calls[op].lacks), f"{op} on {product}: {written} of its dtypes are written"


def test_a_refusal_names_instruction_product_and_page() -> None:
    with pytest.raises(UnsupportedError, match=r"vgather has no call on product 1001 \(Gather\): .*; page .*0092"):
        check_call("vgather", "1001", "fp16")
    with pytest.raises(UnsupportedError, match=r"vmul has no call on product 2201 \(Mul\): Mul takes .*, and not uint32; page .*/Mul"):
        check_call("vmul", "2201", "uint32")


def test_machines_have_products() -> None:
    found = {}
    for name in targets():
        try:
            found[name] = product_of(load(name))
        except UnsupportedError as e:
            assert name in str(e)
    assert found["Ascend910B3"] == found["Ascend910_9392"] == "2201"
    assert found["Ascend310P3"] == "2002" and found["Ascend910A"] == "1001"
    assert not {"Ascend310", "Ascend310B1", "toy"} & found.keys()


def test_releases_spell_what_was_renamed() -> None:
    old, new = release_of("8.5"), release_of("9.1")
    assert (old.scalar_compare, new.scalar_compare) == ("CompareScalar", "Compares")
    assert not release_of("8.1").static and old.static
    with pytest.raises(UnsupportedError, match=r"release 7.0 of CANN is unknown.*8.1, 8.5, 9.1"):
        release_of("7.0")
