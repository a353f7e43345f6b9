#!/usr/bin/env python3
"""Measures PyTorch's DTensor with the programs of the shard suite; one JSON object a line on stdout.

Rank 0 of 8 on PyTorch's fake process group, so that nothing is sent and only the CPU's work is timed. Needs torch; no GPU.
Says on stderr what is missing and exits with 77 where it cannot run.
"""

import json
import sys
import time

CALLS, SAMPLES = 300, 7


def say(name, value):
    print(json.dumps({"name": name, "value": value, "unit": "us"}), flush=True)


def microseconds(body, calls=CALLS, samples=SAMPLES):
    """The median over the samples of what one call takes."""
    for _ in range(max(1, calls // 10)):
        body()
    times = []
    for _ in range(samples):
        begin = time.perf_counter()
        for _ in range(calls):
            body()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return sorted(times)[samples // 2]


def warm(torch, tensor, mesh, suffix):
    """Time of an operator on tensors with placements beyond that of the same operator on their parts."""
    dims = mesh.ndim

    def placed(shape, placement):
        return tensor.DTensor.from_local(torch.ones(shape), mesh, [placement] * dims, run_check=False)

    x = placed((8, 16), tensor.Shard(0))
    w = placed((16, 64), tensor.Replicate())
    y = placed((16, 8), tensor.Shard(1))
    cases = {
        "add": (lambda a, b: a + b, x, x),
        "mm": (lambda a, b: a @ b, x, w),
        "relu": (lambda a, _: torch.relu(a), x, x),
        "sum": (lambda a, _: a.sum(0), x, x),
        "softmax": (lambda a, _: torch.softmax(a, 0), y, y),
        "t": (lambda a, _: a.t(), x, x),
    }
    for name, (call, a, b) in cases.items():
        plain_a, plain_b = a.to_local(), b.to_local()
        with_placements = microseconds(lambda call=call, a=a, b=b: call(a, b))
        without = microseconds(lambda call=call, a=plain_a, b=plain_b: call(a, b))
        say(f"warm_{name}_{suffix}", with_placements - without)


def redistribute(torch, tensor, mesh, suffix):
    """CPU time of a move to replicated."""
    whole = [tensor.Replicate()] * mesh.ndim
    for name, placement in (("S_R", tensor.Shard(0)), ("P_R", tensor.Partial())):
        x = tensor.DTensor.from_local(torch.ones(16, 16), mesh, [placement] * mesh.ndim, run_check=False)
        say(f"redistribute_cpu_{name}_{suffix}", microseconds(lambda x=x: x.redistribute(placements=whole), 100))


def optimizer(torch, tensor, mesh):
    """A fused step over 1000 tensors beyond that over their parts, and clipping of 300 gradients."""
    kinds = [[tensor.Replicate(), tensor.Shard(0)], [tensor.Replicate(), tensor.Replicate()],
             [tensor.Shard(0), tensor.Shard(1)], [tensor.Replicate(), tensor.Shard(1)]]

    def leaves(count, is_placed):
        made = []
        for i in range(count):
            part = torch.zeros(4, 8)
            placed = tensor.DTensor.from_local(part, mesh, kinds[i * 4 // count], run_check=False) if is_placed else part
            leaf = torch.nn.Parameter(placed)
            leaf.grad = torch.zeros_like(leaf)
            made.append(leaf)
        return made

    def step(is_placed):
        adamw = torch.optim.AdamW(leaves(1000, is_placed), foreach=True)
        return microseconds(adamw.step, 3, 3)

    say("foreach_adamw_1000", step(True) - step(False))
    params = leaves(300, True)
    say("clip_grad_norm_300", microseconds(lambda: torch.nn.utils.clip_grad_norm_(params, 1.0), 5, 5))


def main():
    try:
        import torch
        import torch.distributed as dist
        from torch.distributed import tensor
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError as error:
        print(f"no DTensor: {error}", file=sys.stderr)
        return 77
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    line = tensor.init_device_mesh("cpu", (8,), mesh_dim_names=("x",))
    plane = tensor.init_device_mesh("cpu", (2, 4), mesh_dim_names=("x", "y"))
    with torch.no_grad():
        for mesh, suffix in ((line, "8"), (plane, "2x4")):
            warm(torch, tensor, mesh, suffix)
            redistribute(torch, tensor, mesh, suffix)
    optimizer(torch, tensor, plane)
    dist.destroy_process_group()
    print(f"torch {torch.__version__}, DTensor, rank 0 of 8 on the fake process group", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
