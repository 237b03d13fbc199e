"""Systems: what comes with aoec, what a file may say, and what is refused with its place."""
from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.collectives.curve import Curve, join_pieces, polynomial, through
from aoec.collectives.read_system import read_system
from aoec.collectives.system import COLLECTIVES, load, names, shipped_texts

MB = 1 << 20


def write(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", names())
def test_shipped_systems_say_all_collectives_with_sources(name: str) -> None:
    system = load(name)
    sizes = np.unique(np.geomspace(1, 2**40, 4000).astype(np.int64))
    for collective in COLLECTIVES:
        us = system.us(collective, sizes)
        assert us.shape == sizes.shape and np.isfinite(us).all() and (us > 0).all()
    assert system.ranks == int(name.rpartition("-")[2]) and len(system.key) == 64
    assert all(s.source not in ("", "stated in the file") for s in system.statements)
    assert system.contention == 1.0 and "unknown" in system.contention_source


def test_no_two_systems_have_one_key() -> None:
    assert len({load(n).key for n in names()}) == len(names())


def test_every_number_of_a_shipped_file_has_a_source() -> None:
    def walk(entry: object, has_source: bool) -> None:
        if isinstance(entry, dict):
            here = has_source or "source" in entry
            for key, value in entry.items():
                if isinstance(value, (int, float)) and key not in ("unit_bytes", "ranks"):
                    assert here, key
                walk(value, here)
        elif isinstance(entry, list):
            for value in entry:
                assert not isinstance(value, (int, float)) or has_source
                walk(value, has_source)
    for text in shipped_texts().values():
        walk(tomllib.loads(text), False)


def test_the_published_figures_come_out() -> None:
    a2 = load("910b-8")
    assert a2.us("all_reduce", 64 * MB) == pytest.approx(13.585 * 64 + 61.5)
    assert a2.us("all_reduce", 8 * MB) == pytest.approx(13.585 * 8 + 61.5)
    assert a2.us("all_reduce", 4 * MB) == pytest.approx(-0.970 * 16 + 27.06 * 4 + 14.77)
    a3 = load("a3-8")
    below, above = a3.us("all_gather", [8 * 465 * 1024, 8 * 596 * 1024])
    assert below == pytest.approx(29.6, abs=0.1) and above == pytest.approx(155) and 5 < above / below < 5.5
    assert load("ib56-16").us("all_reduce", 10**9) == pytest.approx(235.8 + 0.40595e6, rel=1e-4)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[int, float]]:
    sizes = sorted(draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=12)))
    kept = [x for i, x in enumerate(sizes) if sizes[:i].count(x) < 2]
    return [(x, draw(st.floats(0, 1e4))) for x in kept]


@given(tables(), st.lists(st.integers(1, 2 * 10**6), min_size=1, max_size=20))
def test_a_table_is_read_as_numpy_interpolates_it(points: list[tuple[int, float]], sizes: list[int]) -> None:
    curve = through(points)
    distinct = {x for x, _ in points}
    for size in sizes:
        if size <= points[-1][0] and (size not in distinct or len(distinct) == len(points)):
            xs, us = zip(*points)  # of equal x numpy takes either; between them it is the same line
            assert curve.us(size) == pytest.approx(np.interp(size, xs, us), rel=1e-9, abs=1e-6)
    for x in distinct:
        last = [t for y, t in points if y == x][-1]  # a jump: the size itself belongs to what is above it
        assert curve.us(x) == pytest.approx(last, rel=1e-9, abs=1e-6)
    assert curve.us(points[-1][0] * 4) >= 0


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=6), st.integers(0, 1200))
def test_joined_curves_are_the_piece_that_holds_a_size(parts: list[tuple[int, float, float]], size: int) -> None:
    bounds = sorted({b for b, _, _ in parts})
    curves = [polynomial([a, b]) for _, a, b in parts[:len(bounds)]]
    pieces: list[tuple[float, Curve]] = [*zip(bounds[:-1], curves), (float("inf"), curves[-1])]
    expected = next(c for high, c in pieces if size < high)
    assert join_pieces(pieces).us(size) == pytest.approx(expected.us(size))


@given(tables(), tables(), st.integers(2, 64), st.lists(st.integers(1, 3 * 10**6), min_size=1, max_size=20))
def test_sums_and_shards_are_taken_size_by_size(a: list[tuple[int, float]], b: list[tuple[int, float]], ranks: int,
                                                sizes: list[int]) -> None:
    one, other = through(a), through(b)
    near = [s for s in sizes if all(abs(s / ranks - x) > 1e-6 * x for x, _ in a)]  # at a jump the last bit of s / ranks decides
    assert one.plus(other).us(sizes) == pytest.approx(one.us(sizes) + other.us(sizes), rel=1e-9, abs=1e-6)
    assert one.scale(us=1.5, size=1 / ranks).us(near) == pytest.approx(1.5 * one.us(np.array(near) / ranks), rel=1e-9, abs=1e-6)


@given(tables())
def test_the_least_of_a_curve_is_no_more_than_any_sample(points: list[tuple[int, float]]) -> None:
    curve = through(points)
    us, at = curve.least()
    samples = curve.us(np.linspace(0, 2 * points[-1][0], 500))
    assert us <= samples.min() + 1e-6 and at >= 0


GOOD = """title = "own"
[ranks.4.all_reduce]
pieces = [{below_bytes = 100, us = [1]}, {points = [[100, 2], [200, 3], [200, 9], [400, 10]]}]
"""


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    system = load(write(tmp_path, GOOD))
    assert system.ranks == 4 and system.title == "own"
    assert system.us("all_reduce", [1, 99, 100, 150, 199, 200, 300, 400]).tolist() == pytest.approx([1, 1, 2, 2.5, 2.99, 9, 9.5, 10])
    assert load(system.name + ":4").key == system.key
    with pytest.raises(CheckError, match="does not say what all_gather costs; it says: all_reduce"):
        system.us("all_gather", 1)


@pytest.mark.parametrize(("text", "words"), [
    ("x = [", "not TOML"),
    ("[ranks.4.all_reduce]\npieces=[{us=[1]}]", "title: is missing"),
    ('title="a"', "either"),
    (GOOD.replace("title", "titel", 1), "titel: unknown key; did you mean title?"),
    (GOOD.replace("all_reduce", "allreduce"), "ranks.4: allreduce|ranks.4.allreduce: unknown key; did you mean all_reduce?"),
    (GOOD.replace("ranks.4", "ranks.1"), "ranks.1: a count of ranks"),
    (GOOD.replace("us = [1]", "us = [-1]"), "falls below zero: -1 us at 0 bytes"),
    (GOOD.replace("us = [1]", "us = [1, 2, 3, 4]"), r"pieces\[0\].us: give the factors"),
    (GOOD.replace("us = [1]", "us = [nan]"), r"pieces\[0\].us\[0\]: nan is not from"),
    (GOOD.replace("us = [1]", "us = [true]"), "must be a number"),
    (GOOD.replace("us = [1]", 'us = [1], confidence = "sure"'), "confidence: sure is unknown"),
    (GOOD.replace("[200, 3], ", "[50, 3], "), r"points\[1\]: 50 bytes stand behind 100"),
    (GOOD.replace("[400, 10]", "[200, 10]"), "three times"),
    (GOOD.replace("[400, 10]", "[400, -10]"), r"points\[3\]: -10 is not from 0"),
    (GOOD.replace("below_bytes = 100, ", ""), "lacks below_bytes"),
    (GOOD + "[ranks.4.all_gather]\nshare_of='reduce_scatter'\nshare=1", "made from reduce_scatter, which the file does not say"),
    (GOOD + "[ranks.4.all_gather]\nsum_of=['all_gather']", "all_gather: is made from all_gather"),
    (GOOD + "[[level]]\nname='x'", "either"),
    ("title='a'\n[[level]]\nname='l'\nranks=4\nalgorithm='star'\nlatency_us=1\ngb_per_s=1", "algorithm: star is unknown; known: halving"),
    ("title='a'\n[[level]]\nname='l'\nranks=4\nalgorithm='ring'\nlatency_us=1\ngb_per_s=0", r"level\[0\].gb_per_s: 0 is not from"),
    ("title='a'\n[[level]]\nname='l'\nranks=2.5\nalgorithm='ring'\nlatency_us=1\ngb_per_s=1", "whole number"),
    ("title='a'\n[[level]]\nname='l'\nranks=4\nalgorithm='ring'\nlatency_us=1", r"gb_per_s: is missing"),
])
def test_what_a_file_must_not_say(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(CheckError, match=words) as error:
        load(path)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)


def test_names_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="did you mean 910b-8"):
        load("910b-9")
    with pytest.raises(CheckError, match="cannot read this file of a system"):
        load(str(tmp_path / "no.toml"))
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (1 << 21))
    with pytest.raises(CheckError, match="larger than 1,048,576 bytes"):
        load(str(huge))
    several = write(tmp_path, GOOD + GOOD.split("\n", 1)[1].replace("ranks.4", "ranks.8"))
    with pytest.raises(CheckError, match=r"several counts of ranks; name one: .*own.toml:4, .*own.toml:8"):
        load(several)
    assert load(several + ":8").ranks == 8


@given(st.integers(0, len(GOOD) - 1), st.text(st.characters(max_codepoint=0x2fff), max_size=3), st.integers(0, 30))
def test_a_damaged_file_is_read_or_refused_with_a_sentence(at: int, put: str, cut: int) -> None:
    text = GOOD[:at] + put + GOOD[at + cut:]
    try:
        us = read_system(text, "own.toml", None, "own").us("all_reduce", np.geomspace(1, 2**45, 50))
    except CheckError as e:
        assert "\n" not in str(e)
    else:
        assert np.isfinite(us).all() and (us >= 0).all()
