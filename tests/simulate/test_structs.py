"""Named tuples that kernels take by their address: members as they are at each call, structs in structs, arrays that kernels write to."""
import sys
from collections import namedtuple

import numpy as np
import pytest
from aoec.kernels.structs import pass_by_address
from numba import njit
from numba.core.errors import TypingError

Inner = namedtuple("Inner", ("values",))
Outer = namedtuple("Outer", ("table", "inner", "number"))
for kind in (Inner, Outer):
    pass_by_address(kind)


@njit
def add(outer, by):
    """The sum of all before `by` is added to it, by a loop whose bounds and array lie in a struct in a struct."""
    total = 0
    for k in range(outer.inner.values.shape[0]):
        total += outer.inner.values[k] * outer.number + outer.table[k, 1]
        outer.inner.values[k] += by
    return total


@njit
def twice(outer, other):
    return add(outer, 1) + add(other, 2)


def given(length, number):
    return Outer(np.arange(3.0 * length).reshape(length, 3), Inner(np.arange(length)), number)


def expected(outer):
    return (outer.inner.values * outer.number + outer.table[:, 1]).sum()


def test_members_are_those_of_the_call():
    for length, number in ((4, 2), (7, 5), (1, 0)):
        outer, other = given(length, number), given(length + 2, number + 1)
        before = expected(outer) + expected(other)
        assert twice(outer, other) == before
        assert outer.inner.values.tolist() == list(range(1, length + 1)) and other.inner.values.tolist() == list(range(2, length + 4))
        again = outer._replace(number=number + 3, inner=Inner(np.array([8] * length)))
        assert add(again, 0) == expected(again) and add(outer, 0) == expected(outer)


def test_arrays_are_given_back():
    outer = given(5, 2)
    held = [sys.getrefcount(array) for array in (outer.table, outer.inner.values)]
    for _ in range(10):
        twice(outer, outer)
    assert [sys.getrefcount(array) for array in (outer.table, outer.inner.values)] == held


def test_tuples_of_other_members_are_of_another_type():
    halves = given(3, 2)._replace(inner=Inner(np.array([0.5, 1.5, 2.5])))
    assert add(halves, 1) == (halves.inner.values - 1).sum() * 2 + halves.table[:, 1].sum()


def test_a_member_that_is_not_there_is_told():
    with pytest.raises(TypingError, match="nothing"):
        njit(lambda outer: outer.nothing)(given(2, 1))
