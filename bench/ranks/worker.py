"""A rank of bench/ddp.py, in a process of its own: python worker.py JOB.json RANK. Needs torch and nothing of aoec.

Compute is a timed wait. Each parameter passes through an autograd function. Its backward sleeps until the time at which that gradient is to
be ready, counted from the begin of the backward pass. So DDP's hooks fire at known times, and no core is kept busy. gloo has one thread,
so collectives run one after the other, in the order of their calls.
"""
import importlib.util
import inspect
import json
import os
import sys
import time
from contextlib import nullcontext, suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LIMIT = timedelta(seconds=120)
QUEUED, QUEUED_BYTES = 8, 2 << 20  # all-reduces of a size that are asked for at once, and the bytes of them


class Clock:
    """When each gradient is to be ready, in seconds from the begin of the backward pass, and when it was."""

    def __init__(self, ready):
        self.ready, self.begin, self.seen = ready, 0.0, [0.0] * len(ready)

    def wait(self, number):
        """Sleep until a gradient is to be ready. Where that is past, do not sleep."""
        left = self.begin + self.ready[number] - time.perf_counter()
        if left > 0:
            time.sleep(left)
        self.seen[number] = time.perf_counter() - self.begin


class Wait(torch.autograd.Function):
    """Passes a value on; its backward waits and gives the gradient of a parameter."""

    @staticmethod
    def forward(ctx, x, parameter, gradient, clock, number):
        ctx.gradient, ctx.clock, ctx.number = gradient, clock, number
        return x.clone()

    @staticmethod
    def backward(ctx, upstream):
        ctx.clock.wait(ctx.number)
        return upstream, ctx.gradient, None, None, None


class Model(torch.nn.Module):
    """A chain of waits; parameter 0 gets its gradient first."""

    def __init__(self, counts, clock):
        super().__init__()
        self.clock = clock
        self.gradients = [torch.ones(n) for n in counts]
        for i, n in enumerate(counts):
            self.register_parameter(f"g{i}", torch.nn.Parameter(torch.zeros(n)))

    def forward(self, x):
        for i in reversed(range(len(self.gradients))):
            x = Wait.apply(x, getattr(self, f"g{i}"), self.gradients[i], self.clock, i)
        return x


def make_group(job, rank):
    """Start gloo with one thread, on the interface that the job names."""
    def make(store, rank, size, timeout):
        options = dist.ProcessGroupGloo._Options()
        options._threads, options._timeout = 1, timeout
        options._devices = [dist.ProcessGroupGloo.create_device(interface=job["interface"])]
        return dist.ProcessGroupGloo(store, rank, size, options)

    dist.Backend.register_backend("gloo_one", make, devices=["cpu"])
    store = dist.TCPStore(job["host"], job["port"], job["ranks"], rank == 0, timeout=LIMIT)
    dist.init_process_group("gloo_one", store=store, rank=rank, world_size=job["ranks"], timeout=LIMIT)


def measure_costs(job):
    """Return the µs of an all-reduce of each size: per repetition, of this rank, sizes interleaved.

    Up to QUEUED of one size are asked for at once and share the time, as DDP queues its buckets. What a collective takes of its channel is
    wanted, not how soon a waiting thread wakes.
    """
    buffers = [[torch.ones(max(1, size // 4)) for _ in range(max(1, min(QUEUED, QUEUED_BYTES // size)))] for size in job["sizes"]]
    out = [[] for _ in buffers]
    for repetition in range(job["repetitions"] + 2):
        for i, queue in enumerate(buffers):
            for buffer in queue:
                buffer.fill_(1.0)
            dist.barrier()
            begin = time.perf_counter()
            for work in [dist.all_reduce(buffer, async_op=True) for buffer in queue]:
                work.wait()
            if repetition > 1:
                out[i].append((time.perf_counter() - begin) / len(queue) * 1e6)
    return out


def run_step(ddp, clock, no_sync=False):
    """Return the seconds of a step, of its forward and of its backward pass."""
    x = torch.ones(1)
    with ddp.no_sync() if no_sync else nullcontext():
        begin = time.perf_counter()
        y = ddp(x)
        clock.begin = time.perf_counter()
        y.backward()
        end = time.perf_counter()
    ddp.zero_grad(set_to_none=True)
    return end - begin, clock.begin - begin, end - clock.begin


def measure_compute(job):
    """Return steps without communication: forward and backward µs and the ready times, per repetition."""
    clock = Clock(job["ready_s"])
    ddp = DistributedDataParallel(Model(job["counts"], clock))
    out = []
    for repetition in range(job["compute_repetitions"] + 1):
        dist.barrier()
        _, forward, backward = run_step(ddp, clock, no_sync=True)
        if repetition:
            out.append({"forward_us": forward * 1e6, "backward_us": backward * 1e6, "ready_us": [s * 1e6 for s in clock.seen]})
    return out


def make_ddp(job, name, plan):
    """Return DDP with the buckets of a plan: by bucket_cap_mb_list, or by the hook where the job asks for it or torch has no list."""
    clock = Clock(job["ready_s"])
    model = Model(job["counts"], clock)
    if job["use_hook"] or "bucket_cap_mb_list" not in inspect.signature(DistributedDataParallel.__init__).parameters:
        spec = importlib.util.spec_from_file_location(f"buckets_{name}", plan["hook"])
        hook = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(hook)
        ddp = DistributedDataParallel(model, bucket_cap_mb=hook.CAP_MB)
        state = hook.register(ddp)
        size_of = [sum(job["counts"][int(n[1:])] * 4 for n in bucket) for bucket in hook.BUCKETS]
        return ddp, clock, lambda: [size_of[k] for k in state.order[-len(size_of):]]  # of the last step, as they were sent
    ddp = DistributedDataParallel(model, bucket_cap_mb_list=plan["caps"])
    return ddp, clock, lambda: [int(s) for s in ddp._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(",")]


def assigned(job, plan):
    """Return how many gradients DDP's own function puts into each bucket, from the plan's caps."""
    tensors = [torch.empty(n) for n in job["counts"]]
    caps = [int(cap * 1024 * 1024) for cap in plan["caps"]]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, caps, [], list(range(len(tensors))))
    return [len(b) for b in buckets]


def measure_steps(job):
    """Return, by plan, the µs of each step of this rank and what buckets DDP made. Plans are interleaved: each round has one step of each,
    and begins with another plan."""
    plans = list(job["plans"])
    made = {name: make_ddp(job, name, plan) for name, plan in job["plans"].items()}
    for name in plans:  # DDP orders its buckets by the first iteration
        for _ in range(2):
            run_step(*made[name][:2])
    steps = {name: [] for name in plans}
    for turn in range(job["rounds"]):
        for k in range(len(plans)):
            name = plans[(turn + k) % len(plans)]
            dist.barrier()
            seconds, _, _ = run_step(*made[name][:2])
            steps[name].append(seconds * 1e6)
    return {name: {"us": steps[name], "bucket_bytes": made[name][2](), "assigned": assigned(job, job["plans"][name])} for name in plans}


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        job = json.load(f)
    rank = int(sys.argv[2])
    with suppress(OSError, AttributeError):  # where it is allowed: ranks sleep nearly all the time, and others here should not decide when
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # they wake; threads that gloo starts inherit it
    torch.set_num_threads(1)
    make_group(job, rank)
    found = {"torch": torch.__version__, "costs_us": measure_costs(job), "compute": measure_compute(job)} if job["what"] == "costs" else \
        {"steps": measure_steps(job)}
    with open(f"{sys.argv[1]}.{rank}", "w", encoding="utf-8") as f:
        json.dump(found, f)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
