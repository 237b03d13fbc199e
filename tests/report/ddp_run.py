"""Run by test_ddp_hook.py in a process of its own, one a rank: python ddp_run.py HOOK RANK RANKS STORE. Holds DDP with the hook against DDP
without it."""
import importlib.util
import json
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def run(hook: str, rank: int, ranks: int, store: str) -> dict:
    """Return the largest difference of gradients to those of plain DDP, and the order in which buckets were sent, by iteration."""
    spec = importlib.util.spec_from_file_location("gradient_buckets", hook)
    buckets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(buckets)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    nets = []
    for _ in range(2):
        torch.manual_seed(1)
        nets.append(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4), torch.nn.Linear(4, 2)))
    plain = DistributedDataParallel(nets[0])
    ddp = DistributedDataParallel(nets[1], bucket_cap_mb=buckets.CAP_MB)
    state = buckets.register(ddp)
    worst, orders = 0.0, []
    torch.manual_seed(100 + rank)  # each rank has other data
    for _ in range(3):
        x = torch.randn(5, 8)
        for model in (plain, ddp):
            model.zero_grad()
            model(x).square().sum().backward()
        worst = max(worst, max(float((a.grad - b.grad).abs().max()) for a, b in zip(nets[0].parameters(), nets[1].parameters())))
        orders.append(list(state.order))
        state.order.clear()
    dist.destroy_process_group()
    return {"worst": worst, "orders": orders}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
