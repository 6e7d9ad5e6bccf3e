"""Records tiny random models and what Hugging Face transformers computes with them, for parity.test.ts.

Run by hand, for all models or for those named:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record.py [name ...]

Each folder of models/ gets config.json and safetensors files as transformers saves them, and expected.json with a
prompt, the greedy tokens after it and the logits from which each of those was taken. Weights are rounded to what the
files hold before anything is computed, and all is computed in f32.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

transformers.utils.logging.disable_progress_bar()
MODELS = Path(__file__).parent / "models"
NUM_GREEDY = 16
# Greedy choices closer than this could fall either way in f32: another seed is tried.
MIN_MARGIN = 0.01

BASE = dict(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32)
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=64)


def rope(**fields):
    return dict(rope_parameters=dict(dict(rope_type="default", rope_theta=1e4), **fields))


def longrope(numbers, **fields):
    lists = dict(short_factor=[1 + 0.05 * i for i in range(numbers)], long_factor=[1 + 0.7 * i for i in range(numbers)])
    return dict(original_max_position_embeddings=64, rope_parameters=dict(LONGROPE, **lists, **fields))


# name: (class, fields of the config, prompt length, dtype of the files, bytes of a shard)
SPECS = {
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=128, bos_token_id=1,
                                     eos_token_id=2), 40, "float16", None),
    "llama-2": ("LlamaForCausalLM", dict(BASE, num_key_value_heads=4, **rope()), 40, "float32", None),
    "llama-3.2": ("LlamaForCausalLM", dict(BASE, tie_word_embeddings=True, head_dim=16, rope_parameters=LLAMA3), 60,
                  "bfloat16", "60KB"),
    "llama-linear-bias": ("LlamaForCausalLM", dict(BASE, attention_bias=True, mlp_bias=True,
                                                   **rope(rope_type="linear", factor=2.0)), 40, "bfloat16", None),
    "mistral": ("MistralForCausalLM", dict(BASE, sliding_window=16, **rope()), 50, "bfloat16", None),
    "mistral-nemo": ("MistralForCausalLM", dict(BASE, head_dim=24, sliding_window=None, **rope(rope_theta=1e6)), 40,
                     "bfloat16", None),
    "mixtral": ("MixtralForCausalLM", dict(BASE, num_local_experts=4, num_experts_per_tok=2, **rope(rope_theta=1e6)),
                40, "bfloat16", None),
    "gemma": ("GemmaForCausalLM", dict(BASE, hidden_size=48, num_key_value_heads=1, head_dim=16, **rope()), 40,
              "bfloat16", None),
    "gemma-2": ("Gemma2ForCausalLM", dict(BASE, hidden_size=48, num_hidden_layers=3, head_dim=16, sliding_window=16,
                                          query_pre_attn_scalar=24, attn_logit_softcapping=2.0,
                                          final_logit_softcapping=1.5, **rope()), 50, "bfloat16", None),
    "gemma-3": ("Gemma3ForCausalLM", dict(BASE, hidden_size=48, num_hidden_layers=4, head_dim=16, sliding_window=16,
                                          query_pre_attn_scalar=24,
                                          layer_types=["sliding_attention", "sliding_attention", "full_attention",
                                                       "sliding_attention"],
                                          rope_parameters=dict(
                                              full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                              sliding_attention=dict(rope_type="default", rope_theta=1e4))), 50,
                "bfloat16", None),
    "qwen2": ("Qwen2ForCausalLM", dict(BASE, num_hidden_layers=3, use_sliding_window=True, sliding_window=16,
                                       max_window_layers=1, **rope(rope_theta=1e6)), 50, "bfloat16", None),
    "qwen2.5-yarn": ("Qwen2ForCausalLM", dict(BASE, tie_word_embeddings=True, rope_parameters=YARN), 60, "bfloat16",
                     None),
    "qwen2-moe": ("Qwen2MoeForCausalLM", dict(BASE, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32,
                                              shared_expert_intermediate_size=48, norm_topk_prob=False,
                                              decoder_sparse_step=1, **rope(rope_theta=1e6)), 40, "bfloat16", None),
    "qwen3": ("Qwen3ForCausalLM", dict(BASE, head_dim=24, tie_word_embeddings=True, **rope(rope_theta=1e6)), 40,
              "bfloat16", None),
    "qwen3-moe": ("Qwen3MoeForCausalLM", dict(BASE, num_hidden_layers=3, head_dim=24, num_experts=8,
                                              num_experts_per_tok=4, moe_intermediate_size=24, norm_topk_prob=True,
                                              mlp_only_layers=[1], **rope(rope_theta=1e6)), 40, "bfloat16", None),
    "phi-3": ("Phi3ForCausalLM", dict(BASE, num_key_value_heads=4, sliding_window=20, **rope()), 50, "bfloat16", None),
    "phi-3-longrope-long": ("Phi3ForCausalLM", dict(BASE, num_key_value_heads=4, sliding_window=None, **longrope(8)),
                            80, "bfloat16", None),
    "phi-3-longrope-short": ("Phi3ForCausalLM", dict(BASE, num_key_value_heads=4, sliding_window=None, **longrope(8)),
                             40, "bfloat16", None),
    "phi-4-mini": ("Phi3ForCausalLM", dict(BASE, tie_word_embeddings=True, sliding_window=None,
                                           **longrope(6, partial_rotary_factor=0.75)), 80, "bfloat16", None),
    "phi-2": ("PhiForCausalLM", dict(BASE, hidden_act="gelu_new", num_key_value_heads=4,
                                     **rope(partial_rotary_factor=0.5)), 40, "bfloat16", None),
    "starcoder2": ("Starcoder2ForCausalLM", dict(BASE, sliding_window=16, **rope(rope_theta=1e5)), 50, "bfloat16",
                   None),
}


def randomize(model, dtype):
    """Replaces the small numbers of a fresh model by ones that make every part of it matter."""
    is_transposed = type(model).__name__.startswith("GPT2")
    for name, weight in model.named_parameters():
        noise = torch.randn_like(weight)
        if weight.dim() == 1:
            weight.data += 0.2 * noise
        else:
            inputs = weight.shape[0] if is_transposed and ".h." in name else weight.shape[-1]
            weight.data = noise / inputs**0.5
            if any(part in name for part in ("embed", "wte", "lm_head")):
                # Small logits, as bounds are absolute; and a scaled embedding must not outweigh the layers.
                weight.data *= 0.3 if type(model).__name__.startswith("Gemma") else 0.5
        weight.data = weight.data.to(dtype).float()


def build(name, seed):
    class_name, fields, prompt_length, file_type, shard_bytes = SPECS[name]
    torch.manual_seed(seed)
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**fields)
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    randomize(model, getattr(torch, file_type))
    tokens = torch.randint(3, 256, (1, prompt_length)).tolist()[0]
    return model, tokens, file_type, shard_bytes


@torch.no_grad()
def decode(model, prompt, count=NUM_GREEDY):
    """Greedy tokens, each from a whole forward pass; the logits they were taken from."""
    tokens, rows = list(prompt), []
    for _ in range(count):
        rows.append(model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1])
        tokens.append(int(rows[-1].argmax()))
    return tokens[len(prompt):], torch.stack(rows)


def save(model, directory, file_type, shard_bytes):
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory, **({} if shard_bytes is None else dict(max_shard_size=shard_bytes)))
    (directory / "generation_config.json").unlink(missing_ok=True)
    for path in directory.glob("*.safetensors"):
        tensors = {name: tensor.to(getattr(torch, file_type)).contiguous() for name, tensor in load_file(path).items()}
        save_file(tensors, path, metadata={"format": "pt"})


def record(name):
    for seed in range(300):
        model, prompt, file_type, shard_bytes = build(name, seed)
        greedy, logits = decode(model, prompt)
        top = logits.topk(2).values
        if (top[:, 0] - top[:, 1]).min() >= MIN_MARGIN and len(set(greedy)) > 3:
            break
    else:
        sys.exit(f"{name}: no seed gives clear greedy choices")
    directory = MODELS / name
    save(model, directory, file_type, shard_bytes)
    expected = dict(prompt=prompt, greedy=greedy, logits=[[round(x, 5) for x in row] for row in logits.tolist()])
    (directory / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{name}: seed {seed}, {size} bytes, logits up to {logits.abs().max():.2f}", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or SPECS:
        record(name)
