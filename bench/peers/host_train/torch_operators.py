"""PyTorch's operators on the tensors of tessera/train/host_rows_bench.cpp, forward and backward, by row and mode.

Backward is the operator that autograd would call, called directly, since ours is called directly too. rms_norm, rope and
attention have no single such operator: autograd runs over a graph that is kept.
"""

import torch
import torch._functorch.config
import torch.nn.functional as F

from torch_steps import rope_tables, rotate

torch._functorch.config.donated_buffer = False  # a graph that is kept runs backward many times

aten = torch.ops.aten

SIZES = {  # rows, width; batch, heads, length of rope; tensors, elements of adamw
    "": ((4096, 4096), (8, 32, 1024), (300, 33336)),
    "_cached": ((256, 512), (1, 4, 512), (1, 65536)),
}


def normals(*shape):
    return torch.randn(*shape)


def both_modes(function, *inputs):
    """Calls without gradients."""
    compiled = torch.compile(function, dynamic=False)

    def run(call):
        with torch.no_grad():
            call(*inputs)
    return {"eager": lambda: run(function), "compiled": lambda: run(compiled)}


def by_autograd(function, inputs, others=()):
    """Backward of function(*inputs, *others) with respect to the inputs."""
    inputs = [each.requires_grad_() for each in inputs]

    def backward(call):
        y = call(*inputs, *others)
        grad = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, inputs, grad, retain_graph=True)
    graphs = {}

    def run(mode, call):
        if mode not in graphs:
            graphs[mode] = backward(call)
        graphs[mode]()
    compiled = torch.compile(function, dynamic=False)
    return {"eager": lambda: run("eager", function), "compiled": lambda: run("compiled", compiled)}


def gelu(rows, width, is_backward):
    x = normals(rows, width)
    if not is_backward:
        return both_modes(F.gelu, x)
    return both_modes(aten.gelu_backward, normals(rows, width), x)


def silu(rows, width, is_backward):
    x = normals(rows, width)
    if not is_backward:
        return both_modes(F.silu, x)
    return both_modes(aten.silu_backward, normals(rows, width), x)


def softmax(rows, width, is_backward):
    x = normals(rows, width)
    if not is_backward:
        return both_modes(lambda x: F.softmax(x, 1), x)
    return both_modes(lambda grad, y: aten._softmax_backward_data(grad, y, 1, torch.float32), normals(rows, width),
                      F.softmax(x, 1))


def layer_norm(rows, width, is_backward):
    x, weight, bias = normals(rows, width), normals(width), normals(width)
    if not is_backward:
        return both_modes(lambda x, weight, bias: F.layer_norm(x, (width,), weight, bias), x, weight, bias)
    _, mean, rstd = aten.native_layer_norm(x, (width,), weight, bias, 1e-5)
    return both_modes(
        lambda grad, x, mean, rstd, weight, bias: aten.native_layer_norm_backward(
            grad, x, (width,), mean, rstd, weight, bias, (True, True, True)),
        normals(rows, width), x, mean, rstd, weight, bias)


def rms_norm(rows, width, is_backward):
    def function(x, weight):
        return F.rms_norm(x, (width,), weight, 1e-6)
    x, weight = normals(rows, width), normals(width)
    return by_autograd(function, (x, weight)) if is_backward else both_modes(function, x, weight)


def cross_entropy(rows, width, is_backward):
    logits, targets = normals(rows, width), torch.randint(0, width, (rows,))
    if not is_backward:
        return both_modes(F.cross_entropy, logits, targets)

    def backward(grad, log_probabilities, targets, count):
        grads = aten.nll_loss_backward(grad, log_probabilities, targets, None, 1, -100, count)
        return aten._log_softmax_backward_data(grads, log_probabilities, 1, torch.float32)
    return both_modes(backward, torch.ones(()), F.log_softmax(logits, 1), targets, torch.tensor(float(rows)))


ROW_WISE = {"gelu": gelu, "silu": silu, "softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm,
            "cross_entropy": cross_entropy}


def rope(batch, heads, length, is_backward):
    x, tables = normals(batch, heads, length, 64), rope_tables(length, 64)
    return by_autograd(rotate, (x,), tables) if is_backward else both_modes(rotate, x, *tables)


def adamw(tensors, elements):
    params, grads = ([normals(elements) for _ in range(tensors)] for _ in range(2))
    first, second = ([torch.zeros(elements) for _ in range(tensors)] for _ in range(2))
    steps = [torch.tensor(1.0) for _ in range(tensors)]
    return {"eager": lambda: torch._fused_adamw_(
        params, grads, first, second, [], steps, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8,
        amsgrad=False, maximize=False, grad_scale=None, found_inf=None)}


def attention(is_backward):
    """Causal attention of 8 heads of 64 over 2048 positions. The rows of the same names of the suite ops use one thread."""
    q, k, v = (normals(1, 8, 2048, 64) for _ in range(3))

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    modes = by_autograd(function, (q, k, v)) if is_backward else both_modes(function, q, k, v)
    return {"eager": modes["eager"]}


def rows():
    """Functions that prepare a row, by name: each returns functions by mode."""
    found = {}
    for suffix, (matrix, heads, update) in SIZES.items():
        for direction, is_backward in (("fwd", False), ("bwd", True)):
            for op, prepare in ROW_WISE.items():
                found[f"host_{op}_{direction}{suffix}"] = lambda p=prepare, m=matrix, b=is_backward: p(*m, b)
            found[f"host_rope_{direction}{suffix}"] = lambda h=heads, b=is_backward: rope(*h, b)
        found[f"host_adamw{suffix}"] = lambda u=update: adamw(*u)
    found["attention_fwd"] = lambda: attention(False)
    found["attention_bwd"] = lambda: attention(True)
    return found
