"""Writes a model of published shapes with random weights as Hugging Face has it, with a tokenizer of as many words.

    python3 write-model.py <folder> llama-2-7b|llama-3.1-8b|mistral-nemo-12b|small

Weights are normal with the deviation that such models start training with, drawn on the GPU where there is one. The
output layer's rows of single bytes and of special tokens are zero, so that every greedy token is a whole word.
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file

LLAMA_3_ROPE = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
SHAPES = {
    "llama-2-7b": dict(hidden=4096, inner=11008, layers=32, heads=32, kv_heads=32, vocab=32000, theta=10000.0),
    "llama-3.1-8b": dict(
        hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, vocab=128256, theta=500000.0, scaling=LLAMA_3_ROPE
    ),
    "mistral-nemo-12b": dict(
        hidden=5120, inner=14336, layers=40, heads=32, kv_heads=8, vocab=131072, theta=1000000.0
    ),
    "small": dict(hidden=256, inner=512, layers=4, heads=4, kv_heads=2, vocab=6000, theta=10000.0, head_dim=64),
}
HEAD_DIM = 128
DEVIATION = 0.02
MAX_POSITIONS = 4096
SPECIALS = ["<unk>", "<s>", "</s>"]
NUM_BYTES = 256


def byte_letters():
    """The letter that stands for each byte in a vocabulary of bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(others))]


def tokenizer(vocab_size):
    """Words of three syllables. First syllables are of other consonants than the rest, so that merges are never in doubt."""
    firsts = [c + v for c in "bdfgjklmnp" for v in "aeiou"]
    rests = [c + v for c in "rstvwyzhcx" for v in "aeiou"]
    space = "\u0120"
    tokens = [*SPECIALS, *byte_letters()]
    merges = []

    def merge(left, right):
        tokens.append(left + right)
        merges.append(f"{left} {right}")

    for syllable in [*firsts, *rests]:
        merge(*syllable)
    pairs = [(first, rest) for first in firsts for rest in rests]
    for first, rest in pairs:
        merge(first, rest)
    num_words = (vocab_size - len(tokens)) // 2
    words = [(first + rest, last) for last in rests for first, rest in pairs][:num_words]
    for start, last in words:
        merge(start, last)
    for start, last in words:
        merge(space, start + last)
    while len(tokens) < vocab_size:
        tokens.append(f"<unused{len(tokens)}>")
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": tokens.index(text),
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for text in tokens
            if text.startswith("<") and len(text) > 1
        ],
        "normalizer": None,
        "pre_tokenizer": bytes_only,
        "post_processor": None,
        "decoder": bytes_only,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def config_of(shape):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["inner"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape.get("head_dim", HEAD_DIM),
        "vocab_size": shape["vocab"],
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": shape["theta"],
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    if "scaling" in shape:
        config["rope_scaling"] = shape["scaling"]
    return config


def weights(shape, device):
    generator = torch.Generator(device=device).manual_seed(20261121)

    def normal(*sizes):
        tensor = torch.empty(sizes, dtype=torch.bfloat16, device=device)
        return tensor.normal_(0, DEVIATION, generator=generator).cpu()

    hidden, inner, head_dim = shape["hidden"], shape["inner"], shape.get("head_dim", HEAD_DIM)
    ones = torch.ones(hidden, dtype=torch.bfloat16)
    tensors = {"model.embed_tokens.weight": normal(shape["vocab"], hidden), "model.norm.weight": ones.clone()}
    for i in range(shape["layers"]):
        at = f"model.layers.{i}"
        tensors[f"{at}.input_layernorm.weight"] = ones.clone()
        tensors[f"{at}.post_attention_layernorm.weight"] = ones.clone()
        for name, heads in (("q", shape["heads"]), ("k", shape["kv_heads"]), ("v", shape["kv_heads"])):
            tensors[f"{at}.self_attn.{name}_proj.weight"] = normal(heads * head_dim, hidden)
        tensors[f"{at}.self_attn.o_proj.weight"] = normal(hidden, shape["heads"] * head_dim)
        tensors[f"{at}.mlp.gate_proj.weight"] = normal(inner, hidden)
        tensors[f"{at}.mlp.up_proj.weight"] = normal(inner, hidden)
        tensors[f"{at}.mlp.down_proj.weight"] = normal(hidden, inner)
    head = normal(shape["vocab"], hidden)
    head[: len(SPECIALS) + NUM_BYTES] = 0
    tensors["lm_head.weight"] = head
    return tensors


def main(folder, name):
    shape = SHAPES[name]
    os.makedirs(folder, exist_ok=True)

    def put(file, value):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
            json.dump(value, out, ensure_ascii=False)

    put("config.json", config_of(shape))
    put("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "do_sample": False})
    put("tokenizer.json", tokenizer(shape["vocab"]))
    put(
        "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    save_file(weights(shape, device), os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


main(*sys.argv[1:])
