"""What runs on a real NPU, and skips with the sentence why there is none. We have never run it: please send what it says."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from aoec.acl.device import Device, Launch, open_device
from aoec.acl.known_good import ELEMENTS, EMPTY, empty_source, known_good, known_good_source
from aoec.base.npu_errors import CannNotFound, CompileError, DeviceBusy, NoDevice, NoDriver, UnsupportedProduct
from aoec.toolchain.build import Source, build
from aoec.toolchain.find import find_toolkit

NONE = (CannNotFound, NoDriver, NoDevice, DeviceBusy, UnsupportedProduct)
pytestmark = [pytest.mark.requires_npu, pytest.mark.slow]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """The first device that there is, after its known-good kernel gave its values."""
    try:
        toolkit = find_toolkit()
        with open_device(toolkit) as found:
            name, text, kind = known_good_source(found.facts.product)
            (made,) = build([Source(name, text, kind, found.facts.product)], toolkit)
            if isinstance(made, CompileError):
                raise made
            found.known_good = known_good(made, found.facts.product)
            found.self_test()
            yield found
    except NONE as e:
        pytest.skip(str(e))


def test_memory_comes_back_as_it_was_written(device: Device) -> None:
    data = np.random.default_rng(0).integers(0, 256, 100_003).astype(np.uint8)
    place = device.allocate(data.nbytes)
    device.write(place, data)
    assert np.array_equal(device.read(place, data.nbytes), data)
    device.free(place)


def test_times_of_the_known_good_kernel(device: Device) -> None:
    test, product = device.known_good, device.facts.product
    assert test is not None
    (empty,) = build([Source(*empty_source(product), product)], find_toolkit())
    assert not isinstance(empty, CompileError), empty.log
    x, y = device.allocate(2 * ELEMENTS), device.allocate(2 * ELEMENTS)
    times = device.time([Launch(device.load(test.path, test.name, test.core_type), 1, (x, y))],
                        empty=Launch(device.load(empty, EMPTY, test.core_type), 1, (x,)))
    print(times)
    assert min((*times.hot_us, *times.cold_us, *times.empty_us)) > 0


def test_a_recovered_device_goes_on(device: Device) -> None:
    device.recover()
    device.self_test()
