"""Tables of ACL: codes and their classes, functions and their types, sizes and numbers of the ABI."""
from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec import acl
from aoec.acl import structs
from aoec.acl.codes import codes, error_of, meaning
from aoec.acl.library import OUT, TYPES, functions
from aoec.acl.products import product_of
from aoec.base.errors import AoecError, BackendError
from aoec.base.npu_errors import (
    AclMisuse,
    DeviceLost,
    KernelFault,
    KernelHang,
    LaunchError,
    LoadError,
    NoDevice,
    NoDriver,
    NpuError,
    OutOfMemory,
    UnsupportedProduct,
    WaitTimeout,
)

# written down beside the table, from the published lists of codes
CLASSES = {
    AclMisuse: [100000, 100001, 100002, 107000, 107002, 107003, 107006, 107007, 107008, 107016, 107017, 107018],
    LoadError: [*range(100003, 100009), *range(100011, 100020), 107009, 107010, 145000, 545601, *range(100020, 100032), 507027, 507028,
                107042, 107043, 107044],
    NoDriver: [100039, 507033, 507899, 500004],
    NoDevice: [107001, 207004, 207006, 200002],
    UnsupportedProduct: [507008, 207000, 200001, 200006, 507009],
    OutOfMemory: [200000, 207001, 207018, 207005, 207007, 207008, 207009, 207010, 207012, 507032, 300000],
    WaitTimeout: [107019, 107020, 507046, 507047, 207020],
    KernelHang: [507014, 507034, 507048, 507017],
    KernelFault: [507015, 507016, 507035, 507036, 507042, 507043, 507044, 507045, 507049, 507050, 507011, 507018, 207003, 207016, 207017],
    DeviceLost: [507010, 507053, 507054, 507055, 507056, 507001],
    LaunchError: [107022, 107023, 107035, 500000, 500001, 500002, 500003, 500005, 507000, 176000, 176007, 276000, 276001, 576000]}


def test_every_code_has_its_class() -> None:
    for kind, numbers in CLASSES.items():
        assert {type(error_of("f", n)) for n in numbers} == {kind}
    assert not {n for numbers in CLASSES.values() for n in numbers} - set(codes())


@given(st.integers(-2**31, 2**31 - 1), st.text(max_size=2000))
def test_unknown_codes_keep_their_number(code: int, vendor: str) -> None:
    e = error_of("aclrtMalloc", code, vendor, device=3)
    assert isinstance(e, NpuError) and isinstance(e, BackendError) and isinstance(e, AoecError)
    assert (e.function, e.code, e.vendor, e.device) == ("aclrtMalloc", code, vendor, 3)
    text = str(e)
    assert f"aclrtMalloc answered {code} (" in text and "device 3" in text and "\n" not in text and len(text) < 8 * 2000
    if code not in codes():
        assert type(e) is {"1": AclMisuse, "2": OutOfMemory, "3": OutOfMemory}.get(str(code)[0], LaunchError)


def test_what_a_code_says_has_words_and_a_hint() -> None:
    assert all(meaning(c).name and meaning(c).hint for c in codes())
    assert str(error_of("aclrtSetDevice", 507899, "EZ9999: x", device=0)) == (
        "aclrtSetDevice answered 507899 (the driver failed) on device 0: EZ9999: x; install the driver, and check it with npu-smi info")


def test_sizes_and_offsets_of_structs() -> None:
    sizes = {structs.LaunchAttrValue: 16, structs.LaunchAttr: 20, structs.LaunchConfig: 16, structs.LoadOptionValue: 16,
             structs.LoadOption: 20, structs.LoadOptions: 16, structs.TimeoutUs: 8}
    assert {s: ctypes.sizeof(s) for s in sizes} == sizes
    assert {ctypes.alignment(s) for s in (structs.LaunchAttr, structs.LoadOption, structs.TimeoutUs, structs.LaunchAttrValue)} == {4}
    assert ctypes.alignment(structs.LaunchConfig) == ctypes.alignment(structs.LoadOptions) == 8
    assert (structs.LaunchAttr.id.offset, structs.LaunchAttr.value.offset) == (0, 4)
    assert (structs.LaunchConfig.attrs.offset, structs.LaunchConfig.count.offset) == (0, 8)
    assert (structs.LoadOption.type.offset, structs.LoadOption.value.offset) == (0, 4)
    assert (structs.LoadOptions.options.offset, structs.LoadOptions.count.offset) == (0, 8)
    assert (structs.TimeoutUs.low.offset, structs.TimeoutUs.high.offset) == (0, 4)


def test_numbers_of_the_abi() -> None:
    assert (structs.HUGE_FIRST, structs.HUGE_ONLY, structs.NORMAL_ONLY) == (0, 1, 2)
    assert (structs.HOST_TO_HOST, structs.HOST_TO_DEVICE, structs.DEVICE_TO_HOST, structs.DEVICE_TO_DEVICE) == (0, 1, 2, 3)
    assert (structs.EVENT_SYNC, structs.EVENT_TIME_LINE, structs.CONTINUE_ON_FAILURE, structs.STOP_ON_FAILURE) == (1, 8, 0, 1)
    assert (structs.TIMEOUT, structs.TIMEOUT_US, structs.LAZY_LOAD, structs.MAGIC) == (7, 8, 1, 2)
    assert (structs.ELF_AICORE, structs.ELF_VECTOR_CORE, structs.ELF_CUBE_CORE) == (0x43554245, 0x41415246, 0x41494343)
    assert (structs.AICPU_NUM, structs.AICORE_NUM, structs.CUBE_CORE_NUM, structs.VECTOR_CORE_NUM) == (1, 101, 102, 201)
    assert (structs.UBUF, structs.GLOBAL_MEM, structs.L2_CACHE, structs.NPU_ARCH) == (204, 301, 302, 601)


def test_functions_have_known_types() -> None:
    table = functions()
    assert 40 <= len(table) <= 60
    for f in table.values():
        assert f.returns in TYPES and all(a.removeprefix(OUT) in TYPES for a in f.arguments), f.name
    assert table["aclrtMemcpy"].types() == [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32]
    assert table["aclInit"].required and not table["aclrtLaunchKernel"].required


def test_what_stands_in_the_table_is_called() -> None:
    sources = "".join((Path(acl.__file__).parent / f"{name}.py").read_text() for name in ("board", "launching", "library"))
    assert [name for name in functions() if f'"{name}"' not in sources] == []


NAMES = {"Ascend910B3": 2201, "Ascend910B4-1": 2201, "Ascend910B2C": 2201, "Ascend910_9392": 2201, "Ascend310P3": 2002, "Ascend910A": 1001,
         "Ascend910B": 1001, "Ascend910ProB": 1001, "Ascend910PremiumA": 1001}


@pytest.mark.parametrize("soc", NAMES)
def test_the_product_of_a_soc(soc: str) -> None:
    assert product_of(soc) == NAMES[soc]


@pytest.mark.parametrize("soc, said", [("Ascend310B1", "product 3002"), ("Ascend950PR_957x", "product 3510"), ("Ascend310", "no product"),
                                       ("", "no product"), ("Ascend910B3x", "no product")])
def test_products_without_kernels(soc: str, said: str) -> None:
    with pytest.raises(UnsupportedProduct, match=said):
        product_of(soc)
