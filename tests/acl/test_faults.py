"""What goes wrong on a device: kernels that hang, fail or give wrong values, workers that die, devices that go, memory that ends.

Each is a typed error with the function, code and launch; the worker is replaced, the lease kept, and the next run is as if nothing was."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from aoec.acl.device import Device, Launch, Limits, open_device
from aoec.acl.lease import Lease
from aoec.base.npu_errors import (
    CannNotFound,
    DeviceBusy,
    DeviceLost,
    KernelFault,
    KernelHang,
    LaunchError,
    NoDevice,
    NoDriver,
    NpuError,
    OutOfMemory,
    UnsupportedProduct,
    WaitTimeout,
)
from aoec.toolchain.find import find_toolkit
from tests.acl.kits import RELEASES, good, kit
from tests.standin.need import hear_interrupts, needs_compiler

pytestmark = needs_compiler
SHORT = Limits(wait=0.4, answer=0.6, abort=1.0)
FAULT = "AOEC_STANDIN_FAULT"


def start(leases: Path, fault: str = "", release: int = 91, tested: bool = False, **environ: str) -> Device:
    return open_device(kit(release), known_good=good(release) if tested else None, limits=SHORT, lease_folder=leases,
                       environ={**os.environ, **({FAULT: fault} if fault else {}), **environ})


def add(device: Device, launches: int = 1, limit_us: int = 300_000) -> bool:
    """Whether the known-good kernel, launched some times, gives its values."""
    test = good(int(device.toolkit.root.name))
    k = device.load(test.path, test.name, test.core_type)
    x, y = device.allocate(256), device.allocate(256)
    device.write(x, test.inputs[0])
    device.fill(y, 0xFF, 256)
    device.run([Launch(k, 1, (x, y))] * launches, limit_us)
    return device.read(y, 256).tobytes() == test.expected


FAULTS = [  # fault, class, code, words, release
    ("launch=hang@2", KernelHang, 507014, "longer than its time limit", 91),
    pytest.param("launch=hang@2", KernelHang, 507014, "longer than its time limit", 85, marks=pytest.mark.slow),
    ("launch=deaf@2", WaitTimeout, 507046, "did not end in", 91),
    ("launch=never@2", KernelHang, 0, "did not answer run in 1.9 s and was killed", 91),
    ("launch=fault@2", KernelFault, 507015, "aicore execution is abnormal", 91),
    pytest.param("launch=fault@2", KernelFault, 507015, "aicore execution is abnormal", 81, marks=pytest.mark.slow),
    ("launch=lose@2", DeviceLost, 507010, "heartbeat", 91),
    ("launch=crash@2", DeviceLost, 0, "the worker of device 0 ended by signal 11, in run", 91)]


@pytest.mark.parametrize("fault, kind, code, words, release", FAULTS)
def test_a_failed_kernel_ends_the_worker_and_a_new_one_goes_on(fault: str, kind: type[NpuError], code: int, words: str, release: int,
                                                               tmp_path: Path) -> None:
    good(release)
    with start(tmp_path, fault, release) as device:
        begin = time.monotonic()
        with pytest.raises(kind, match=words) as caught:
            add(device, 3)
        assert time.monotonic() - begin < 6
        assert type(caught.value) is kind and (caught.value.code, caught.value.device) == (code, 0)
        known = code and kind is not DeviceLost  # events say which one, where there is somebody to ask
        assert caught.value.launch == (1 if known else -1)
        with pytest.raises(DeviceLost, match=r"device 0 has no worker, since .*recover\(\)"):
            device.allocate(64)
        with pytest.raises(DeviceBusy):
            Lease(0, tmp_path)  # the parent has it all the time
        device.recover()
        assert device.generation == 2 and device.facts.product == 2201
        k = next(iter(device._kernels))
        x, y = device.allocate(256), device.allocate(256)
        device.run([Launch(k, 1, (x, y))], 300_000)  # its number is the one of before
    Lease(0, tmp_path).release()


@pytest.mark.slow
def test_a_limit_in_whole_seconds_holds_too(tmp_path: Path) -> None:
    """A release that knows seconds alone rounds up, and the host waits as much longer."""
    with start(tmp_path, "launch=hang@1", 81) as device:
        begin = time.monotonic()
        with pytest.raises(KernelHang) as caught:
            add(device)
        assert caught.value.code == 507014 and 0.9 < time.monotonic() - begin < 3


def test_a_limit_beyond_the_devices_longest_is_the_hosts(tmp_path: Path) -> None:
    with start(tmp_path, "launch=hang@1", AOEC_STANDIN_INTERVAL="1000") as device:
        assert (device.facts.step_us, device.facts.longest_us) == (1000, 254_000)
        with pytest.raises(WaitTimeout):
            add(device, limit_us=300_000)


@pytest.mark.parametrize("release, kind, said", [(91, KernelHang, "ran longer than 300000 us"),
                                                 pytest.param(81, WaitTimeout, "did not end in 1400 ms", marks=pytest.mark.slow)])
def test_without_a_limit_of_the_process_the_launchs_own_holds_or_the_hosts(release: int, kind: type[NpuError], said: str,
                                                                                       tmp_path: Path) -> None:
    without = "aclrtSetOpExecuteTimeOutV2=207000,aclrtSetOpExecuteTimeOut=207000,launch=hang"
    with start(tmp_path, without, release) as device, pytest.raises(kind, match=said):
        add(device)


def test_the_lost_device_and_other_faults_of_calls(tmp_path: Path) -> None:
    with start(tmp_path, "aclrtMalloc=207001@2") as device:
        x = device.allocate(64)
        with pytest.raises(OutOfMemory, match=r"aclrtMalloc answered 207001 .*4,096 bytes were asked for, [\d,]+ of [\d,]+ are free"):
            device.allocate(4096)
        device.write(x, b"12345678")  # the worker goes on
        assert device.generation == 1
    with start(tmp_path, "aclrtMemcpy=507899@1") as device:
        x = device.allocate(64)
        with pytest.raises(NoDriver, match="507899"):
            device.write(x, b"12345678")
        with pytest.raises(DeviceLost, match="has no worker"):  # after a failure inside the driver it does not
            device.free(x)


@pytest.mark.parametrize("code, kind", [(107020, WaitTimeout), (207003, KernelFault), (500000, LaunchError)])
def test_a_failed_wait_ends_the_worker_whatever_its_code(code: int, kind: type[NpuError], tmp_path: Path) -> None:
    with start(tmp_path, f"aclrtSynchronizeStreamWithTimeout={code}@1") as device:
        with pytest.raises(kind, match=str(code)):
            add(device)
        with pytest.raises(DeviceLost, match="has no worker"):
            device.allocate(64)


def test_wrong_values_twice_put_a_device_out_of_use(tmp_path: Path) -> None:
    with pytest.raises(KernelFault, match="the self-test failed twice, and device 0 is not used any more: kernel aoec_known_good, whose"):
        start(tmp_path, "launch=wrong", tested=True)
    with start(tmp_path, "launch=wrong@2", tested=True) as device:
        assert device.generation == 1 and not add(device)  # the self-test was the first launch
        device._environ[FAULT] = "launch=fault"
        with pytest.raises(KernelFault, match="failed twice"):
            device.recover()
        assert device.generation == 3
        for use in (lambda: device.allocate(64), device.recover, lambda: device.run([], 1)):
            with pytest.raises(DeviceLost, match="not used any more in this run, since its self-test failed twice"):
                use()
    Lease(0, tmp_path).release()


def test_a_self_test_that_fails_once_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = start(tmp_path, tested=True)
    real, failed = Device.self_test, [0]

    def fail_once(self: Device) -> None:
        failed[0] += 1
        if failed[0] == 1:
            raise KernelFault("once")
        real(self)
    monkeypatch.setattr(Device, "self_test", fail_once)
    device.recover()
    assert device.generation == 3 and add(device)
    device.close()
    with pytest.raises(NpuError, match="device 0 is closed"):
        device.allocate(64)


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_slow_is_no_fault(release: int, tmp_path: Path) -> None:
    with start(tmp_path, "launch=slow", release) as device:
        assert add(device, 2, 2_000_000)


# ---------------------------------------------------------------- no hardware

def test_the_states_of_no_hardware(tmp_path: Path) -> None:
    with pytest.raises(NoDriver, match=r"aclrtSetDevice answered 507899 .*npu-smi info"):
        start(tmp_path, "aclrtSetDevice=507899")
    with pytest.raises(NoDevice, match="npu-smi info"):
        start(tmp_path, AOEC_STANDIN_DEVICES="0")
    with pytest.raises(NoDriver, match="507899"):
        start(tmp_path, AOEC_STANDIN_DEVICES="-1")
    with pytest.raises(NoDevice, match=r"aclrtSetDevice answered 107001 .*on device 3|device 3: aclrtSetDevice answered 107001"):
        open_device(kit(91), 3, limits=SHORT, lease_folder=tmp_path)
    with pytest.raises(UnsupportedProduct, match="the device is Ascend310B1, product 3002"):
        start(tmp_path, AOEC_STANDIN_SOC="Ascend310B1")
    Lease(0, tmp_path).release()


def test_a_library_that_is_none(tmp_path: Path) -> None:
    root = tmp_path / "cann"
    (root / "lib64").mkdir(parents=True)
    (root / "compiler/ccec_compiler/bin").mkdir(parents=True)
    (root / "compiler/ccec_compiler/bin/bisheng").write_text("")
    with pytest.raises(CannNotFound, match=r"has no library of ACL \(libacl_rt.so, libascendcl.so\)"):
        open_device(find_toolkit({"ASCEND_HOME_PATH": str(root)}), lease_folder=tmp_path)
    (root / "lib64/libascendcl.so").write_text("no library")
    with pytest.raises(CannNotFound, match=r"no library of ACL can be loaded: .*libascendcl.so \(.*set_env.sh"):
        open_device(find_toolkit({"ASCEND_HOME_PATH": str(root)}), lease_folder=tmp_path)
    source = tmp_path / "few.c"
    source.write_text("int aclInit(const char* path) { return path != 0; }\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-xc", str(source), "-o", str(root / "lib64/libascendcl.so")], check=True)
    with pytest.raises(CannNotFound, match=r"lacks aclFinalize, aclrtGetSocName, .*which every release of CANN that aoec knows has"):
        open_device(find_toolkit({"ASCEND_HOME_PATH": str(root)}), lease_folder=tmp_path)
    Lease(0, tmp_path).release()


# ---------------------------------------------------------------- processes

HOLD = """
import os, sys, time
from pathlib import Path
from aoec.acl.device import Launch, Limits
from tests.acl.kits import good
from tests.acl.test_faults import start
test = good(91)
with start(Path(sys.argv[1]), sys.argv[2]) as device:
    device.limits = Limits(wait=60, answer=60)
    kernel, x, y = device.load(test.path, test.name, test.core_type), device.allocate(256), device.allocate(256)
    print(device._worker.process.pid, flush=True)
    if sys.argv[2]:
        device.run([Launch(kernel, 1, (x, y))], 200_000_000)
    time.sleep(60)
"""


def hold(leases: Path, fault: str = "") -> tuple[subprocess.Popen[str], int]:
    """A process that has device 0, and the number of its worker."""
    root = Path(__file__).parents[2]
    home = {"ASCEND_HOME_PATH": str(kit(91).root), "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(leases), fault], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **home}, cwd=root, preexec_fn=hear_interrupts)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate()[1])
    return process, int(line)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_gone(pid: int) -> None:
    until = time.monotonic() + 10
    while is_there(pid):
        assert time.monotonic() < until, "a worker outlives its parent"
        time.sleep(0.02)


@pytest.mark.parametrize("fault", [pytest.param("", marks=pytest.mark.slow), "launch=never@1"])
def test_kill_9_of_the_parent_ends_the_worker_and_frees_the_lease(fault: str, tmp_path: Path) -> None:
    """Also while a call of the library never returns."""
    process, worker = hold(tmp_path, fault)
    with pytest.raises(DeviceBusy, match=f"by process {process.pid} "):
        start(tmp_path)
    time.sleep(0.5 if fault else 0)  # until it is in the call
    assert is_there(worker)
    process.kill()
    process.communicate()
    wait_gone(worker)
    with start(tmp_path) as device:
        assert add(device)


def test_ctrl_c_in_the_parent_ends_the_worker_and_frees_the_lease(tmp_path: Path) -> None:
    process, worker = hold(tmp_path, "launch=never@1")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
    wait_gone(worker)
    Lease(0, tmp_path).release()


def test_an_interrupt_in_this_process_leaves_a_device_that_can_be_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start(tmp_path) as device:
        worker = device._worker
        assert worker is not None

        def interrupt(*args: object) -> None:
            raise KeyboardInterrupt
        monkeypatch.setattr(worker.channel, "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            device.allocate(64)
        assert worker.process.returncode == -signal.SIGKILL
        device.recover()
        assert add(device)


def test_a_worker_that_is_killed_from_outside(tmp_path: Path) -> None:
    with start(tmp_path) as device:
        worker = device._worker
        assert worker is not None
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(DeviceLost, match="ended by signal 9"):
            device.allocate(64)
        device.recover()
        assert add(device)


def loaded() -> set[str]:
    """The libraries of ACL in this process, by path."""
    return {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libascendcl" in line}


def test_the_parent_never_loads_the_library(tmp_path: Path) -> None:
    before = loaded()  # tests of the stand-in load its library into this process, if they ran here
    with start(tmp_path) as device:
        assert add(device)
        assert loaded() == before and not any(str(kit(91).root) in path for path in before)
        worker = device._worker
        assert worker is not None and "ascendcl" in Path(f"/proc/{worker.process.pid}/maps").read_text()


def test_a_fault_of_a_workers_own_code_is_no_end_of_it(tmp_path: Path) -> None:
    with start(tmp_path) as device:
        with pytest.raises(LaunchError, match="TypeError"):
            device._ask("fill", 5, nothing=1)
        with pytest.raises(NpuError, match="a worker does not know dance"):
            device._ask("dance", 5)
        place = device.allocate(16)
        device.write(place, np.arange(8, dtype=np.float16))
        assert np.array_equal(device.read(place, 16).view(np.float16), np.arange(8)) and device.generation == 1
