"""Generation by transformers on the host: the preset 124m of llama, as generation_bench.cpp generates with ours."""

import torch

# Sizes of tessera/models/generation_bench.cpp.
SIZES = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12,
         "intermediate_size": 2048, "vocab_size": 50304, "max_position_embeddings": 1024, "tie_word_embeddings": True}
DECODE_PROMPT, DECODED, PREFILL_PROMPT = 128, 32, 512
ROWS = {f"{kind}_124m{batch}{dtype}": (kind, 8 if batch else 1, torch.bfloat16 if dtype else torch.float32)
        for kind in ("decode", "prefill") for batch in ("", "_batch8") for dtype in ("", "_bf16")}


def tokens_per_call(name):
    kind, batch, _dtype = ROWS[name]
    return batch * (DECODED if kind == "decode" else PREFILL_PROMPT)


def prepare(name):
    """A function that generates, in its fastest form: greedy, with a cache, and scores of the last token alone."""
    import transformers  # only these rows need it; pylint: disable=import-outside-toplevel

    kind, batch, dtype = ROWS[name]
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**SIZES)
    model = transformers.LlamaForCausalLM(config).to(dtype).eval()

    def one_pass(tokens, cache):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    if kind == "prefill":
        prompt = torch.full((batch, PREFILL_PROMPT), 7)

        @torch.inference_mode()
        def prefill():
            one_pass(prompt, transformers.DynamicCache())

        return {"eager": prefill}
    cache = transformers.DynamicCache()
    with torch.inference_mode():
        first = one_pass(torch.full((batch, DECODE_PROMPT), 7), cache)

    @torch.inference_mode()
    def decode():
        token = first
        for _ in range(DECODED):
            token = one_pass(token, cache)
        cache.crop(-DECODED)

    return {"eager": decode}
