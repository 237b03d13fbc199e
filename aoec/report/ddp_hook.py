"""A plan as a communication hook of PyTorch's DistributedDataParallel: a Python file that imports torch alone.

`bucket_cap_mb_list` (bucket_caps.py) is shorter, and takes buckets from the order in which gradients are ready. The hook takes them from
the names of parameters, so it holds whatever that order is, and with versions of torch that have no such list.
"""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.ir.training import BucketPlan, StepTrace

TEXT = '''"""Buckets of gradients for PyTorch's DistributedDataParallel, as aoec planned them. __SUMMARY__

    from torch.nn.parallel import DistributedDataParallel
    import gradient_buckets

    ddp = DistributedDataParallel(model, bucket_cap_mb=gradient_buckets.CAP_MB)
    gradient_buckets.register(ddp)

With CAP_MB each gradient is a bucket of its own for DDP, from the second iteration on; in the first one DDP has a single bucket. The hook
keeps gradients until all of their planned bucket are there, and sends them by one all-reduce, which gives the mean over the ranks. Buckets
are known by the names of parameters, so the order in which DDP counts its own buckets does not matter. Every rank must register the same
plan. The plan rests on __TIMES__ times.
"""
import threading

import torch
import torch.distributed as dist

CAP_MB = 1 / (1 << 20)  # a byte: DDP closes a bucket once it holds that much
BUCKETS = __BUCKETS__


class Buckets:
    """What of each planned bucket has come. `order`: the numbers of the buckets as they were sent since `register` or `order.clear()`."""

    def __init__(self, ddp, group=None, rename=None):
        names = {name: p for name, p in ddp.module.named_parameters() if p.requires_grad}
        rename = rename or {}
        planned = [rename.get(n, n) for bucket in BUCKETS for n in bucket]
        missing, extra = sorted(set(planned) - set(names)), sorted(set(names) - set(planned))
        if missing or extra or len(planned) != len(set(planned)):
            raise ValueError(f"the plan is not of this model's parameters that need a gradient: {len(missing)} are not in the model "
                             f"({', '.join(missing[:3])}), {len(extra)} are not in the plan ({', '.join(extra[:3])}); rename= maps names "
                             "of the plan to names of the model")
        self.group = group if group is not None else ddp.process_group
        self.number = {id(names[rename.get(n, n)]): k for k, bucket in enumerate(BUCKETS) for n in bucket}
        self.wanted = [len(bucket) for bucket in BUCKETS]
        self.waiting = [[] for _ in BUCKETS]  # (gradient, Whole) of what is here, by planned bucket
        self.order = []

    def take(self, bucket):
        """Keeps the gradients of a bucket of DDP, sends the planned ones that are complete, and returns the future of its buffer."""
        parameters = bucket.parameters()
        whole = Whole(bucket.buffer(), len(parameters))
        numbers = [self.number[id(p)] for p in parameters]
        for number, gradient in zip(numbers, bucket.gradients()):
            self.waiting[number].append((gradient, whole))
        for number in sorted(set(numbers)):
            if len(self.waiting[number]) == self.wanted[number]:
                self.send(number)
        return whole.future

    def send(self, number):
        """Sends a planned bucket."""
        held, self.waiting[number] = self.waiting[number], []
        self.order.append(number)
        flat = held[0][0].view(-1) if len(held) == 1 else torch.cat([gradient.reshape(-1) for gradient, _ in held])
        flat.div_(dist.get_world_size(self.group))
        work = dist.all_reduce(flat, group=self.group, async_op=True)

        def give_back(done):
            try:
                done.wait()
            except Exception as error:
                for _, whole in held:
                    whole.fail(error)
                return
            at = 0
            for gradient, whole in held:
                if len(held) > 1:
                    gradient.copy_(flat[at:at + gradient.numel()].view_as(gradient))
                at += gradient.numel()
                whole.give()

        work.get_future().add_done_callback(give_back)


class Whole:
    """A bucket of DDP, whose future is done once each of its gradients is reduced."""

    def __init__(self, buffer, count):
        self.buffer, self.left, self.lock = buffer, count, threading.Lock()
        self.future = torch.futures.Future(devices=[buffer.device] if buffer.device.type != "cpu" else None)

    def give(self):
        """Counts a gradient as reduced."""
        with self.lock:
            self.left -= 1
            last = self.left == 0
        if last:
            self.future.set_result(self.buffer)

    def fail(self, error):
        """Gives the step what went wrong, once."""
        with self.lock:
            first, self.left = self.left > 0, 0
        if first:
            self.future.set_exception(error)


def register(ddp, group=None, rename=None):
    """Registers the plan with a DistributedDataParallel and returns its Buckets. `rename`: names of the plan -> names of the model."""
    state = Buckets(ddp, group, rename)
    ddp.register_comm_hook(state, _hook)
    return state


def _hook(state, bucket):
    return state.take(bucket)
'''


def hook_text(plan: BucketPlan, trace: StepTrace) -> str:
    """Return the text of the file, for a plan of a trace whose gradients have the names of parameters. Raise CheckError where the plan is
    none of the trace, two gradients have one name, or the plan is not one of all-reduces, which is what a hook of DDP does."""
    plan.check(len(trace.gradients))
    if plan.scheme != "all_reduce":
        raise CheckError(f"a communication hook of DDP does all-reduces; the plan's scheme is {plan.scheme}")
    names = [g.name for g in trace.gradients]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise CheckError(f"two gradients are called {twice}; a hook knows buckets by the names of parameters")
    rows = [", ".join(ascii(names[n]) for n in listed) for listed in plan.ranges()]
    buckets = "[\n" + "".join(f"    [{row}],\n" for row in rows) + "]"
    summary = f"{len(rows)} buckets, {len(names)} gradients, {trace.size:,} bytes."
    return TEXT.replace("__SUMMARY__", summary).replace("__TIMES__", trace.source).replace("__BUCKETS__", buckets)
