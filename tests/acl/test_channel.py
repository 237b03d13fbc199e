"""Frames between a worker and its parent, and leases: what is sent is received; what is no frame, late or gone is said."""
from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.acl.channel import HEAD, MARK, MOST_JSON, Channel, ChannelClosed, ChannelLate
from aoec.acl.lease import Lease, physical
from aoec.base.errors import BackendError
from aoec.base.npu_errors import DeviceBusy, NoDevice


def pair() -> tuple[Channel, Channel]:
    (a, b), (c, d) = os.pipe(), os.pipe()
    return Channel(a, d), Channel(c, b)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = pair()
    yield one, other
    for channel in (one, other):
        channel.close()


JSON = st.recursive(st.none() | st.booleans() | st.integers(-2**64, 2**64) | st.text(),
                    lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=8)


@settings(max_examples=25)
@given(st.lists(st.dictionaries(st.text(), JSON), max_size=4))
def test_frames_come_as_they_were_sent(frames: list[dict]) -> None:
    one, other = pair()
    for frame in frames:
        one.send(frame, 5)
        assert other.receive(5) == frame
    one.close()
    other.close()


def test_a_long_frame_goes_through_a_pipe_that_is_short(ends: tuple[Channel, Channel]) -> None:
    frame = {"launches": [[1, 2, [2**63 - i for i in range(20)]]] * 3000}
    thread = threading.Thread(target=ends[0].send, args=(frame, 10))
    thread.start()
    assert ends[1].receive(10) == frame
    thread.join()
    with pytest.raises(ValueError, match="too long"):
        ends[0].send({"x": "x" * MOST_JSON}, 1)


def test_deadlines(ends: tuple[Channel, Channel]) -> None:
    start = time.monotonic()
    with pytest.raises(ChannelLate):
        ends[0].receive(0.1)
    with pytest.raises(ChannelLate):
        ends[0].send({"x": "x" * (1 << 20)}, 0.1)  # nobody reads
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("data", [b"nonsense nonsense nonsense", HEAD.pack(MARK, MOST_JSON + 1), HEAD.pack(MARK, 2) + b"[]",
                                  HEAD.pack(MARK, 1) + b"{", HEAD.pack(MARK, 9) + b"\xff" * 9, HEAD.pack(MARK, 100000) + b"[" * 100000,
                                  struct.pack("<4sI", b"XXXX", 2) + b"{}"])
def test_what_is_no_frame(ends: tuple[Channel, Channel], data: bytes) -> None:
    thread = threading.Thread(target=_put, args=(ends[0].writer, data))
    thread.start()
    with pytest.raises(ChannelClosed):
        ends[1].receive(5)
    thread.join()


def _put(handle: int, data: bytes) -> None:
    os.set_blocking(handle, True)
    while data:
        data = data[os.write(handle, data):]


def test_a_closed_pipe() -> None:
    one, other = pair()
    one.close()
    with pytest.raises(ChannelClosed):
        other.receive(5)
    with pytest.raises(ChannelClosed):
        other.send({}, 5)
    other.close()


# ---------------------------------------------------------------- leases

def test_one_has_a_device_at_a_time(tmp_path: Path) -> None:
    first, other = Lease(0, tmp_path), Lease(1, tmp_path)
    with pytest.raises(DeviceBusy, match=rf"device 0 is taken by process {os.getpid()} of .* since \d{{4}}-.*npu-0.lock"):
        Lease(0, tmp_path)
    first.release()
    first.release()
    Lease(0, tmp_path).release()
    other.release()


def test_a_dead_process_leaves_no_lease(tmp_path: Path) -> None:
    code = ("import sys, time; from pathlib import Path; from aoec.acl.lease import Lease; x = Lease(0, Path(sys.argv[1])); "
            "print('taken', flush=True); time.sleep(60)")
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "taken\n"
    with pytest.raises(DeviceBusy, match=f"process {process.pid} "):
        Lease(0, tmp_path)
    process.kill()
    process.wait()
    process.stdout.close()
    assert json.loads((tmp_path / "npu-0.lock").read_text())["pid"] == process.pid  # what it left is no lock
    Lease(0, tmp_path).release()


def test_a_forked_child_keeps_no_lease(tmp_path: Path) -> None:
    """Else what the child does after the parent's end would keep the device."""
    lease = Lease(0, tmp_path)
    (begun, begins), (ending, ends) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.write(begins, b"x")
        os.read(ending, 1)  # until the parent closes its end
        os._exit(0)
    assert os.read(begun, 1) == b"x"
    os.close(lease.handle)  # as a process that is killed does
    lease.handle = -1
    Lease(0, tmp_path).release()
    for handle in (begun, begins, ending, ends):
        os.close(handle)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("left", [b"", b"{", b"[1]", b'{"pid": "x", "host": 1, "start": 2}', b"\xff" * 5000])
def test_what_lies_in_the_file_is_no_matter(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "npu-0.lock").write_bytes(left)
    lease = Lease(0, tmp_path)
    os.ftruncate(lease.handle, 0)
    os.pwrite(lease.handle, left, 0)
    with pytest.raises(DeviceBusy, match="device 0 is taken"):
        Lease(0, tmp_path)
    lease.release()


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match="AOEC_LEASE_DIR"):
        Lease(0, tmp_path / "file")
    os.symlink(tmp_path / "elsewhere", tmp_path / "npu-0.lock")
    with pytest.raises(BackendError, match="cannot open"):
        Lease(0, tmp_path)


def test_numbers_count_the_devices_that_are_shown() -> None:
    assert physical(1, {}) == 1
    assert physical(1, {"ASCEND_RT_VISIBLE_DEVICES": "2, 5"}) == 5
    for number, shown in ((2, "2,5"), (0, "x"), (-1, "")):
        with pytest.raises(NoDevice):
            physical(number, {"ASCEND_RT_VISIBLE_DEVICES": shown})
