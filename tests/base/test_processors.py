"""Processors: a worker process keeps to its share of them, and threads of libraries are asked for by the words that their users know."""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from aoec.base import processors
from aoec.simulate import time as timing


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
