"""Memory that is used again: arrays do not share any until it is begun anew, and then lie where others lay."""
from __future__ import annotations

from threading import Thread

import numpy as np

from aoec.simulate.values.arena import SMALL_BYTES, Arena, of_this_thread


def cut(arena: Arena) -> list[np.ndarray]:
    return [arena.zeros((3, SMALL_BYTES), np.int64), arena.empty(5 * SMALL_BYTES + 1, np.uint8), arena.zeros((2, SMALL_BYTES), float)]


def test_arrays_share_nothing_and_zeros_are_zeros():
    arena = Arena()
    for _ in range(3):
        arrays = cut(arena.begin())
        for i, own in enumerate(arrays):
            assert own.flags.c_contiguous and own.flags.aligned and not any(np.shares_memory(own, other) for other in arrays[:i])
        assert not arrays[0].any() and not arrays[2].any()
        for own in arrays:
            own.fill(7)


def test_memory_is_taken_again_once_it_is_known_how_much_there_will_be():
    arena = Arena()
    cut(arena.begin())
    before = cut(arena.begin())
    after = cut(arena.begin())
    assert all(np.shares_memory(x, y) for x, y in zip(before, after))
    assert arena.begin().zeros(4, np.int8).base is None  # small ones are the allocator's


def test_each_thread_has_its_own():
    found: list[Arena] = []
    threads = [Thread(target=lambda: found.append(of_this_thread())) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len({id(a) for a in (*found, of_this_thread())}) == 3 and of_this_thread() is of_this_thread()
