"""Processors: a worker process keeps to its share of them, and threads of libraries are asked for by the words that their users know."""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aoec.base.process import processors
from aoec.ir.text.parse import parse_program
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing import rows
from aoec.simulate.timing import time as timing
from aoec.simulate.values import values
from aoec.target.machine import load


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eight processors, no variable set, and nobody to share with afterwards."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for name in processors.THREADS:
        monkeypatch.delenv(name, raising=False)
    yield
    processors.keep_to(0)


@pytest.mark.parametrize("processes, share", [(1, 8), (2, 4), (3, 2), (8, 1), (20, 1)])
def test_shares(processes: int, share: int) -> None:
    assert processors.share_of(processes) == share


def test_libraries_are_told_and_a_users_own_word_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with processors.few_threads(2):
        assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "2" and os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "3" and "OPENBLAS_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("share, most", [(0, 6), (2, 2), (1, 1)])
def test_rows_are_timed_by_as_many_threads_as_the_share_has(share: int, most: int) -> None:
    processors.keep_to(share)
    seen: set[int] = set()

    def run(part: tuple[int, int]) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.02)

    timing._each(run, [(i, i + 1) for i in range(12)], 6)
    assert len(seen) <= most and (len(seen) > 1) == (most > 1)


PROGRAM = parse_program((Path(__file__).parents[1] / "programs/vector.prog").read_text("utf-8"), "vector")  # on two cores


@pytest.mark.parametrize("share, most", [(0, 8), (2, 2), (1, 1)])
def test_whole_measures_are_made_by_as_many_threads_as_the_share_has(share: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    processors.keep_to(share)
    seen: set[int] = set()

    def slab(*of: object) -> Iterator[int]:
        seen.add(threading.get_ident())
        time.sleep(0.02)
        return iter(())

    monkeypatch.setattr(rows, "_slab", slab)
    assert not list(rows.measure_rows(encode(PROGRAM, load("toy")), {}, 12 * rows.SLAB))
    assert len(seen) <= most and (len(seen) > 1) == (most > 1)


@pytest.mark.parametrize("share, asked, parts", [(0, 0, 2), (2, 0, 2), (1, 0, 1), (1, 2, 2)])
def test_a_program_is_run_by_as_many_threads_as_the_share_has_or_as_were_asked_for(share: int, asked: int, parts: int,
                                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    processors.keep_to(share)
    ran: list[tuple[int, int]] = []

    def run(code: object, memory: object, low: int, high: int, *_: object) -> bool:
        ran.append((low, high))
        return True

    monkeypatch.setattr(values, "_run", run)
    values.Executable(PROGRAM).run({t.name: np.zeros(2000, np.float16) for t in PROGRAM.tensors if t.role == "input"}, asked)
    assert sorted(ran) == ([(0, 1), (1, 2)] if parts == 2 else [(0, 2)])
