#!/usr/bin/env python3
"""tests/hugging_face/compare.py --tessera PROGRAM --logits PROGRAM --work FOLDER: models of transformers in and out.

Versions 4 and 5 of transformers make small random models of each family. For each, `tessera checkpoint import` and
logits.cpp must give the same logits (1e-4 in f32) and the same 64 tokens of greedy generation. A load without an import
must give the same bits. `tessera checkpoint export` must give files from which both versions load a model with the same
logits.

PyTorch and transformers come from PyPI, into FOLDER/environment, or from the Python in HF_PYTHON. transformers 4 is
installed beside it, into FOLDER/transformers4, or taken from HF_TRANSFORMERS4. Without PyPI the test skips itself: exit
code 77.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
TOLERANCE = 1e-4
NEW_TOKENS = 64
SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 96, "vocab_size": 211, "max_position_embeddings": 128}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
# Name, class, and fields beyond SIZES. "rope" is written as each version expects it.
FAMILIES = {
    "llama2": ("Llama", {"rms_norm_eps": 1e-5, "num_key_value_heads": 4}),
    "llama3": ("Llama", {"rope": (500000.0, LLAMA3), "tie_word_embeddings": True}),
    "llama_linear": ("Llama", {"rope": (10000.0, {"rope_type": "linear", "factor": 2.0}), "head_dim": 24}),
    "mistral": ("Mistral", {"sliding_window": 7, "head_dim": 32, "rope": (1000000.0, None)}),
    "mistral_full": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {"rope": (1000000.0, None)}),
    "qwen2_window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 0}),
    "qwen3": ("Qwen3", {"head_dim": 32, "tie_word_embeddings": True, "rope": (1000000.0, None)}),
    "gpt2": ("GPT2", {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 211, "n_positions": 128}),
    "gpt2_gelu": ("GPT2", {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_inner": 100, "vocab_size": 211,
                           "n_positions": 128, "activation_function": "gelu"}),
}


def make_model(name):
    """A random model with no default values left in its norms and biases."""
    import torch
    import transformers

    kind, fields = FAMILIES[name]
    fields = dict(fields) if kind == "GPT2" else SIZES | fields
    base, scaling = fields.pop("rope", (10000.0, None))
    if kind != "GPT2" and transformers.__version__.startswith("4"):
        fields |= {"rope_theta": base, "rope_scaling": scaling}
    elif kind != "GPT2":
        fields |= {"rope_parameters": {"rope_theta": base} | (scaling or {"rope_type": "default"})}
    config = getattr(transformers, f"{kind}Config")(**fields, initializer_range=0.08, bos_token_id=1, eos_token_id=None,
                                                    attn_implementation="eager")
    torch.manual_seed(7)
    model = getattr(transformers, f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def results_of(model, tokens):
    """Logits, and the tokens of greedy generation."""
    import torch

    with torch.no_grad():
        logits = model(tokens).logits
        for _ in range(NEW_TOKENS):
            tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], 1)
    return {"logits": logits.contiguous(), "tokens": tokens.contiguous()}


def worker(action, name, folder):
    """Runs with a version of transformers: makes a model, or loads one and writes its results."""
    import safetensors.torch
    import torch
    import transformers

    folder = pathlib.Path(folder)
    torch.set_num_threads(1)
    if action == "make":
        model = make_model(name)
        model.save_pretrained(folder / "model", max_shard_size="100KB")
        generator = torch.Generator().manual_seed(3)
        tokens = torch.randint(0, 211, (2, 40), generator=generator)
        safetensors.torch.save_file({"tokens": tokens}, folder / "tokens.safetensors")
        safetensors.torch.save_file(results_of(model, tokens), folder / "theirs.safetensors")
    else:
        tokens = safetensors.torch.load_file(folder / "tokens.safetensors")["tokens"]
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            folder / name, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        problems = {key: sorted(map(str, value)) for key, value in told.items() if value}
        if problems:
            sys.exit(f"loading {name}: {problems}")
        safetensors.torch.save_file(results_of(model.eval(), tokens), folder / f"{name}.results")


def compare(mine, theirs):
    """The largest difference of logits; fails if it, or a token, differs."""
    import safetensors.torch
    import torch

    a, b = safetensors.torch.load_file(mine), safetensors.torch.load_file(theirs)
    difference = (a["logits"] - b["logits"]).abs().max().item()
    tokens = int((a["tokens"] != b["tokens"]).sum())
    spread = b["logits"].std().item()
    kinds = len(torch.unique(b["tokens"][:, -NEW_TOKENS:]))
    print(f"{difference:.2e} of logits with deviation {spread:.2f}; {kinds} kinds of tokens, {tokens} differ")
    return 0 if difference <= TOLERANCE and tokens == 0 else 1


class Pythons:
    """The Python with PyTorch, with transformers 4 or 5."""

    def __init__(self, work):
        environment = work / "environment"
        self.python = os.environ.get("HF_PYTHON", str(environment / "bin" / "python3"))
        self.v4 = pathlib.Path(os.environ.get("HF_TRANSFORMERS4", work / "transformers4"))
        pip = [self.python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15"]
        if "HF_PYTHON" not in os.environ:
            self.install(environment, [[sys.executable, "-m", "venv", str(environment)],
                                       [*pip, "torch", "numpy", "safetensors", "transformers>=5,<6"]])
        if "HF_TRANSFORMERS4" not in os.environ:
            target = [*pip, "--target", str(self.v4)]
            self.install(self.v4, [[*target, "--no-deps", "transformers>=4.56,<5"],
                                   [*target, "huggingface-hub<1", "tokenizers<0.23"]])

    @staticmethod
    def install(folder, commands):
        """Makes a folder of this test by these commands, unless it is complete. Without PyPI, the test is skipped."""
        complete = folder / ".complete"
        if complete.exists():
            return
        print(f"installing from PyPI into {folder}", flush=True)
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"skipped: {' '.join(command[:4])}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
                sys.exit(SKIPPED)
        complete.touch()

    def run(self, version, *arguments):
        """Runs this file with a version. Returns its output; ends the test if it fails."""
        environment = dict(os.environ, TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        if version == 4:
            environment["PYTHONPATH"] = str(self.v4)
        done = subprocess.run([self.python, __file__, *map(str, arguments)], env=environment, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
        return done.returncode, done.stdout.strip()


def ours(program, *arguments):
    """Runs a program of Tessera."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{pathlib.Path(program).name} {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.returncode == 0


def check(pythons, options, version, name, folder):
    """One model, both ways. Returns the number of failures."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    checkpoint = folder / "imported" / "step-000000000"
    done = (pythons.run(version, "--worker", "make", name, folder)[0] == 0
            and ours(options.tessera, "checkpoint", "import", folder / "model", "-o", folder / "imported")
            and ours(options.tessera, "checkpoint", "verify", checkpoint)
            and ours(options.logits, checkpoint, folder / "tokens.safetensors", folder / "ours.safetensors")
            and ours(options.logits, folder / "model", folder / "tokens.safetensors", folder / "direct.safetensors")
            and ours(options.tessera, "checkpoint", "export", checkpoint, "-o", folder / "exported", "--max-file", "100kB"))
    if not done:
        return 1
    failed, told = pythons.run(5, "--compare", folder / "ours.safetensors", folder / "theirs.safetensors")
    print(f"transformers {version} {name:13} imported: {told}", flush=True)
    if (folder / "direct.safetensors").read_bytes() != (folder / "ours.safetensors").read_bytes():
        failed = 1
        print(f"transformers {version} {name:13} loaded without an import: logits differ", flush=True)
    for reader in (4, 5):
        code = pythons.run(reader, "--worker", "load", "exported", folder)[0]
        failed |= code
        if code == 0:
            code, told = pythons.run(5, "--compare", folder / "exported.results", folder / "theirs.safetensors")
            failed |= code
            print(f"transformers {version} {name:13} exported, read by {reader}: {told}", flush=True)
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", help="the command tessera")
    parser.add_argument("--logits", help="the program of logits.cpp")
    parser.add_argument("--work", type=pathlib.Path, help="folder for environments and models")
    parser.add_argument("--family", help="only this row of FAMILIES")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--compare", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(*options.worker)
    if options.compare:
        return compare(*options.compare)
    options.work.mkdir(parents=True, exist_ok=True)
    pythons = Pythons(options.work.resolve())
    failures = 0
    for version in (4, 5):
        for name in [options.family] if options.family else FAMILIES:
            failures += check(pythons, options, version, name, options.work.resolve() / f"{name}-{version}")
    print(json.dumps({"failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
