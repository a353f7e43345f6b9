#!/usr/bin/env python3
"""Measures PyTorch's attention with the sizes of the ops suite on a GPU; one JSON object a line on stdout.

Each row is the rate of the fastest backend of scaled_dot_product_attention that runs here. Says on stderr what is missing and
exits with 77 where it cannot run.
"""

import json
import sys

SIZES = ((4, 32, 4096, 128), (32, 12, 1024, 64))
CALLS, SAMPLES = 10, 20


def seconds(torch, body):
    """The median time of a call on the GPU."""
    for _ in range(3):
        body()
    times = []
    for _ in range(SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            body()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / CALLS * 1e-3)
    return sorted(times)[SAMPLES // 2]


def rates(torch, batch, heads, length, width):
    """Operations per second inside the causal mask, forward and backward: the best of all backends, with its name."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def tensor(needs_grad=True):
        x = torch.randn(batch, length, heads, width, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        return x.requires_grad_(needs_grad)

    q, k, v, grad = tensor(), tensor(), tensor(), tensor(False)
    products = batch * heads * length * length * width
    best = {"fwd": (0, "none"), "bwd": (0, "none")}
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            with sdpa_kernel(backend):
                def forward():
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

                out = forward()
                found = {"fwd": 2 * products / seconds(torch, forward),
                         "bwd": 5 * products / seconds(torch, lambda: torch.autograd.grad(
                             out, (q, k, v), grad, retain_graph=True))}
        except RuntimeError:
            continue
        for name, rate in found.items():
            best[name] = max(best[name], (rate, backend.name))
    return best


def main():
    try:
        import torch
    except ImportError as error:
        print(f"no PyTorch: {error}", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return 77
    backends = set()
    for sizes in SIZES:
        for name, (rate, backend) in rates(torch, *sizes).items():
            backends.add(backend)
            row = f"attention_{name}_{'x'.join(map(str, sizes))}_bf16"
            print(json.dumps({"name": row, "value": rate / 1e9, "unit": "G/s"}), flush=True)
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}, {', '.join(sorted(backends))}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
