"""Training steps of PyTorch on the host: the decoder of our presets, with fused projections, AdamW and clipping."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

# Sizes of our presets, the batch of the row and its dtype: those of tessera/models/llama.cpp and host_steps_bench.cpp.
TINY = {"width": 128, "layers": 4, "heads": 4, "kv_heads": 2, "hidden": 352, "vocabulary": 256, "sequence": 128}
LARGE = {"width": 768, "layers": 12, "heads": 12, "kv_heads": 12, "hidden": 2048, "vocabulary": 50304, "sequence": 1024}
STEPS = {
    "step_tiny": (TINY, {"batch": 16, "tied": False, "dtype": "f32", "learning_rate": 3e-3}),
    "step_124m": (LARGE, {"batch": 2, "tied": True, "dtype": "f32", "learning_rate": 3e-4}),
    "step_124m_bf16": (LARGE, {"batch": 2, "tied": True, "dtype": "bf16", "learning_rate": 3e-4}),
}


def rotate(x, cos, sin):
    """Rotary position embedding of half-split pairs."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def rope_tables(length, head):
    """Cosines and sines, [length, head / 2]."""
    turns = 10000.0 ** (-torch.arange(0, head, 2) / head)
    angle = torch.arange(length)[:, None] * turns[None, :]
    return angle.cos(), angle.sin()


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width, self.heads, self.kv_heads = sizes["width"], sizes["heads"], sizes["kv_heads"]
        self.head = width // self.heads
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.projections = nn.Linear(width, (self.heads + 2 * self.kv_heads) * self.head, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.feed_forward_norm = nn.RMSNorm(width, eps=1e-5)
        self.gate_and_up = nn.Linear(width, 2 * sizes["hidden"], bias=False)
        self.down = nn.Linear(sizes["hidden"], width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        both = self.projections(self.attention_norm(x)).view(batch, length, -1, self.head).transpose(1, 2)
        q, k, v = both.split((self.heads, self.kv_heads, self.kv_heads), 1)
        mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True,
                                               enable_gqa=self.heads != self.kv_heads)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_and_up(self.feed_forward_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, sizes, tied):
        super().__init__()
        self.embedding = nn.Embedding(sizes["vocabulary"], sizes["width"])
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes["layers"]))
        self.last_norm = nn.RMSNorm(sizes["width"], eps=1e-5)
        self.head = nn.Linear(sizes["width"], sizes["vocabulary"], bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        cos, sin = rope_tables(sizes["sequence"], sizes["width"] // sizes["heads"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.last_norm(x)).flatten(0, 1).float(), targets.flatten())


def prepare(name):
    """Functions that take a step, by mode. Both modes train the same model."""
    sizes, how = STEPS[name]
    torch.manual_seed(1)
    model = Model(sizes, how["tied"])
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embedding" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or "embedding" in n]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=how["learning_rate"], betas=(0.9, 0.95), fused=True)
    shape = (how["batch"], sizes["sequence"])
    tokens, targets = torch.randint(0, sizes["vocabulary"], shape), torch.randint(0, sizes["vocabulary"], shape)

    def step(call):
        with torch.autocast("cpu", torch.bfloat16) if how["dtype"] == "bf16" else contextlib.nullcontext():
            loss = call(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    compiled = torch.compile(model)
    return {"eager": lambda: step(model), "compiled": lambda: step(compiled)}
