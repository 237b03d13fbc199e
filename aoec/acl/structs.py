"""Sizes and numbers of ACL's ABI that aoec uses. Measured against the public headers of the 9.1 line with g++ on x86-64."""
from __future__ import annotations

import ctypes

HUGE_FIRST, HUGE_ONLY, NORMAL_ONLY = 0, 1, 2  # pages of an allocation
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 0, 1, 2, 3  # kinds of a copy
EVENT_SYNC, EVENT_TIME_LINE = 1, 8
CONTINUE_ON_FAILURE, STOP_ON_FAILURE = 0, 1  # modes of a stream
TIMEOUT, TIMEOUT_US = 7, 8  # attributes of a launch; their limits are u16 seconds and two u32 of microseconds
LAZY_LOAD, MAGIC = 1, 2  # options of loading
ELF_AICORE, ELF_VECTOR_CORE, ELF_CUBE_CORE = 0x43554245, 0x41415246, 0x41494343  # magic numbers
AICPU_NUM, AICORE_NUM, CUBE_CORE_NUM, VECTOR_CORE_NUM, UBUF, GLOBAL_MEM, L2_CACHE, NPU_ARCH = 1, 101, 102, 201, 204, 301, 302, 601
MEMORY_KINDS = (1, 0)  # what aclrtGetMemInfo is asked for: HBM, and DDR where there is none
MOST_PARAMETERS, MOST_BLOCKS = 128, 65535


class TimeoutUs(ctypes.Structure):
    """A limit in microseconds in two halves."""

    _fields_ = (("low", ctypes.c_uint32), ("high", ctypes.c_uint32))


class LaunchAttrValue(ctypes.Union):
    """The value of an attribute of a launch."""

    _fields_ = (("timeout_us", TimeoutUs), ("timeout", ctypes.c_uint16), ("words", ctypes.c_uint32 * 4))


class LaunchAttr(ctypes.Structure):
    """An attribute of a launch."""

    _fields_ = (("id", ctypes.c_int32), ("value", LaunchAttrValue))


class LaunchConfig(ctypes.Structure):
    """All attributes of a launch."""

    _fields_ = (("attrs", ctypes.POINTER(LaunchAttr)), ("count", ctypes.c_size_t))


class LoadOptionValue(ctypes.Union):
    """The value of an option of loading."""

    _fields_ = (("magic", ctypes.c_uint32), ("words", ctypes.c_uint32 * 4))


class LoadOption(ctypes.Structure):
    """An option of loading."""

    _fields_ = (("type", ctypes.c_int32), ("value", LoadOptionValue))


class LoadOptions(ctypes.Structure):
    """All options of loading."""

    _fields_ = (("options", ctypes.POINTER(LoadOption)), ("count", ctypes.c_size_t))
