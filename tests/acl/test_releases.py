"""Kernels that aoec.ascendc writes, built by the toolkit of each release and run through its library: their values are NumPy's."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aoec.acl.device import Device, Launch, open_device
from aoec.ascendc.kernel import Kernel, write_kernel
from aoec.base.npu_errors import AclMisuse, LoadError, UnsupportedProduct
from aoec.ir.text.parse import parse_program
from aoec.target.machine import load
from aoec.toolchain.build import Source
from aoec.toolchain.find import spelling
from tests.acl.kits import built, empty, good, kit, opened
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
TESTS = Path(__file__).parents[1]
PROGRAMS = {"elementwise": "ascendc/kernels", "matmul_bias_relu": "ascendc/kernels", "two_streams": "programs"}
ROUTES = {81: ("A", "B"), 85: ("A", "C", "B"), 91: ("A", "C", "B")}


def kernel(name: str, release: int) -> Kernel:
    """A program beside the tests as a kernel, in the spelling of the release."""
    path = TESTS / PROGRAMS[name] / f"{name}.prog"
    return write_kernel(parse_program(path.read_text(), name), load(), spelling(kit(release)))


def case(name: str) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Arguments of a kernel (the last is its output), the values that it should write, by NumPy, and how near."""
    random = np.random.default_rng(3)
    if name == "elementwise":
        x, z = (random.integers(-8, 9, 2000).astype(np.float16) for _ in range(2))
        return [x, z, np.zeros(2000, np.float16)], np.maximum(2 * x + z, 0), 0.0
    if name == "matmul_bias_relu":
        a, b = random.integers(-3, 4, (37, 50)).astype(np.float16), np.zeros((64, 32), np.float16)
        b[:50, :21] = random.integers(-3, 4, (50, 21))
        bias = np.zeros(32, np.float32)
        bias[:21] = random.integers(-9, 10, 21)
        blocks = np.ascontiguousarray(b.reshape(4, 16, 2, 16).transpose(0, 2, 3, 1))  # each fraction by columns
        want = np.maximum(a.astype(np.float32) @ b[:50, :21].astype(np.float32) + bias[:21], 0).astype(np.float16)
        return [a, blocks, bias, np.zeros((37, 21), np.float16)], want, 0.0
    x, y = (random.standard_normal(s).astype(np.float16) / np.float16(8) for s in ((160, 32), (32, 32)))
    want = np.exp(x.astype(np.float32) @ y.astype(np.float32))
    return [x, y, np.zeros((2, 32, 32), np.float32), np.zeros((160, 32), np.float32)], want, 1e-5


def launch(device: Device, made: Kernel, path: Path, arrays: list[np.ndarray]) -> np.ndarray:
    """What the last argument holds after a launch, of memory that held 0xFF before."""
    places = [device.allocate(a.nbytes) for a in arrays]
    for place, a in zip(places[:-1], arrays):
        device.write(place, a)
    device.fill(places[-1], 0xFF, arrays[-1].nbytes)
    device.run([Launch(device.load(path, made.name, made.kind), made.blocks, tuple(places))], 10_000_000)
    out = device.read(places[-1], arrays[-1].nbytes).view(arrays[-1].dtype).reshape(arrays[-1].shape)
    for place in places:
        device.free(place)
    return out


SLOW = pytest.mark.slow


@pytest.mark.parametrize("release", [pytest.param(81, marks=SLOW), pytest.param(85, marks=SLOW), 91])
def test_kernels_have_the_values_of_numpy_by_every_route(release: int, tmp_path: Path) -> None:
    """Vector, cube and mixed kernels; the sync address of the mixed one stands first by the library's doing, or by ours."""
    kernels = {name: kernel(name, release) for name in PROGRAMS}
    paths = built(release, [Source(k.name, k.source, k.kind, int(k.product)) for k in kernels.values()])
    for route in ROUTES[release]:
        with open_device(kit(release), routes=(route,), lease_folder=tmp_path) as device:
            assert device.facts.routes == (route,)
            for (name, made), path in zip(kernels.items(), paths):
                arrays, want, near = case(name)
                got = launch(device, made, path, arrays)
                assert np.allclose(got, want, rtol=near, atol=0), f"{name} by route {route}"


@pytest.mark.parametrize("release, product", [(91, 2002), *[pytest.param(r, p, marks=SLOW) for r, p in (
    (81, 2002), (81, 1001), (85, 2002), (85, 1001), (91, 1001))]])
def test_products_with_one_kind_of_core(release: int, product: int, tmp_path: Path) -> None:
    test = good(release, product)
    with opened(release, tmp_path, product) as device:
        device.known_good = test
        device.self_test()
        assert device.facts.product == product and not device.facts.longest_us


def test_what_the_library_says_of_the_device(tmp_path: Path) -> None:
    with opened(91, tmp_path) as device:
        facts = device.facts
        assert (facts.soc, facts.product, facts.acl_version, facts.routes) == ("Ascend910B3", 2201, "1.17.0", ("A", "C", "B"))
        assert facts.cores == {"core": 20, "cube": 20, "vector": 40} and facts.l2_bytes == 192 << 20
        assert facts.memory_total == 32 << 30 and facts.symbols["aclInit"] == "libacl_rt.so" and facts.stops
        assert device.memory()[1] == facts.memory_total


@pytest.mark.slow
def test_what_an_old_library_says_of_the_device(tmp_path: Path) -> None:
    with opened(81, tmp_path) as device:
        assert device.facts.cores == {} and device.facts.l2_bytes == 0 and device.facts.symbols["aclInit"] == "libascendcl.so"
        assert "aclrtGetDeviceInfo" not in device.facts.symbols and device.facts.step_us == 1_000_000


@pytest.mark.parametrize("release", [pytest.param(81, marks=SLOW), 85, pytest.param(91, marks=SLOW)])
def test_times_come_from_events(release: int, tmp_path: Path) -> None:
    test, (path, name, kind) = good(release), empty(release)
    with opened(release, tmp_path) as device:
        x, y = device.allocate(256), device.allocate(256)
        launched = Launch(device.load(test.path, test.name, test.core_type), 1, (x, y))
        times = device.time([launched], empty=Launch(device.load(path, name, kind), 1, (x,)), spans=3, cold=2, l2_bytes=1 << 20)
    assert (len(times.hot_us), len(times.cold_us), len(times.empty_us)) == (3, 2, 3) and times.source == "event"
    assert times.emptied_by == ("aclrtDeviceL2CacheFlush" if release == 91 else "memset")
    assert min((*times.hot_us, *times.cold_us, *times.empty_us)) > 0 and times.passes * times.launches >= 1
    assert times.least <= times.hot and times.spread >= 0 and times.cold and times.empty


def test_long_arrays_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aoec.acl.device.SHARED_BYTES", 1000)
    data = np.random.default_rng(0).integers(0, 256, 4321).astype(np.uint8)
    with opened(91, tmp_path) as device:
        place = device.allocate(data.nbytes)
        device.write(place, data)
        assert np.array_equal(device.read(place, data.nbytes), data)
        device.write(place + 16, b"abc")
        assert bytes(device.read(place + 15, 5)) == bytes([data[15]]) + b"abc" + bytes([data[19]])
        assert device.read(place, 0).size == 0
        with pytest.raises(AclMisuse, match="aclrtMemcpy"):
            device.read(place, data.nbytes + 4096)  # beyond its allocation
        device.fill(place, 7, 10)  # what is refused leaves the worker as it was
        assert device.generation == 1 and set(device.read(place, 10)) == {7}


def test_a_refused_launch_is_named_and_the_worker_goes_on(tmp_path: Path) -> None:
    test = good(91)
    with opened(91, tmp_path) as device:
        x, y = device.allocate(256), device.allocate(256)
        k = device.load(test.path, test.name, test.core_type)
        for bad, said in ((Launch(k, 0, (x, y)), "0 blocks"), (Launch(k, 1, (x,) * 129), "129 arguments"),
                          (Launch(k, 65536, (x, y)), "65536 blocks")):
            with pytest.raises(AclMisuse, match=f"launch 1: .*{said}"):
                device.run([Launch(k, 1, (x, y)), bad], 1_000_000)
        with pytest.raises(AclMisuse, match="kernel 77 is not loaded"):
            device.run([Launch(77, 1, (x, y))], 1_000_000)
        with pytest.raises(AclMisuse, match="a time limit of 0 us"):
            device.run([Launch(k, 1, (x, y))], 0)
        device.run([Launch(k, 1, (x, y))] * 3, 1_000_000)
        device.unload(k)
        with pytest.raises(AclMisuse, match="is not loaded"):
            device.run([Launch(k, 1, (x, y))], 1_000_000)
        assert device.generation == 1


def test_objects_that_are_not_loaded(tmp_path: Path) -> None:
    test = good(91)
    junk = tmp_path / "junk.o"
    junk.write_bytes(b"no object")
    with opened(91, tmp_path) as device:
        for path, name, said in ((junk, "f", r"route A by aclrtBinaryLoadFromFile: .*route B by aclrtCreateBinary: "),
                                 (tmp_path / "none.o", "f", "none.o"), (test.path, "other", "the binary has no kernel other")):
            with pytest.raises(LoadError, match=said) as caught:
                device.load(path, name, "KERNEL_TYPE_AIV_ONLY")
            assert caught.value.device == 0
        device.load(test.path, test.name, test.core_type)
    with opened(91, tmp_path, 2002) as device, pytest.raises(LoadError, match="for product 2201, and this device is Ascend310P3"):
        device.load(test.path, test.name, test.core_type)


def test_a_route_that_a_release_lacks(tmp_path: Path) -> None:
    test = good(81)
    with open_device(kit(81), routes=("C",), lease_folder=tmp_path) as device, pytest.raises(LoadError, match="WithHostArgs"):
        device.load(test.path, test.name, test.core_type)


def test_a_product_that_is_another_one(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedProduct, match=r"device 0 is Ascend910B3, product 2201, and the kernels are for product 2002"):
        open_device(kit(91), product=2002, lease_folder=tmp_path)
