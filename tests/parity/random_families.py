"""Ranges of the fields of each family, for record_random.py: each function draws the fields of one configuration.

It returns the fields for transformers' own class, and what belongs to the recording: the prompt's length, and a rewriting
of the saved config.json, such as the older form of its RoPE fields.
"""

ACTS = ["silu", "silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "quick_gelu"]


def base(r):
    heads = r.choice([1, 2, 3, 4, 6, 8])
    divisors = [n for n in range(1, heads + 1) if heads % n == 0]
    return dict(
        vocab_size=r.choice([40, 64, 97]), hidden_size=r.choice([16, 24, 32, 48]) * (3 if heads in (3, 6) else 1),
        intermediate_size=r.choice([16, 40, 56]), num_hidden_layers=r.randint(1, 4), num_attention_heads=heads,
        num_key_value_heads=r.choice(divisors), max_position_embeddings=r.choice([64, 128, 256]), bos_token_id=1,
        eos_token_id=2, pad_token_id=0, tie_word_embeddings=r.random() < 0.4)


def rms(r):
    return dict(rms_norm_eps=r.choice([1e-6, 1e-5, 1e-3, 1e-2]))


def head_dim(r):
    return dict(head_dim=r.choice([8, 12, 16, 24, 32]))


def act(r, name="hidden_act"):
    return {name: r.choice(ACTS)}


def default_rope(r):
    return dict(rope_type="default", rope_theta=r.choice([100.0, 1e4, 5e5, 1e6]))


def yarn(r, longest):
    fields = dict(rope_type="yarn", rope_theta=r.choice([1e4, 1e6]), factor=r.choice([1.5, 2.0, 4.0, 8.0]),
                  original_max_position_embeddings=longest // r.choice([2, 4]))
    if r.random() < 0.3:
        fields.update(beta_fast=r.choice([16.0, 32.0, 64.0]), beta_slow=r.choice([0.5, 1.0, 2.0]))
    if r.random() < 0.3:
        fields["attention_factor"] = r.choice([0.8, 1.0, 1.3])
    elif r.random() < 0.3:
        fields.update(mscale=r.choice([0.7, 1.0]), mscale_all_dim=r.choice([0.5, 1.0]))
    if r.random() < 0.2:
        fields["truncate"] = False
    return fields


def llama3(r, longest):
    return dict(rope_type="llama3", rope_theta=r.choice([1e4, 5e5]), factor=r.choice([2.0, 8.0, 32.0]),
                low_freq_factor=r.choice([0.5, 1.0]), high_freq_factor=r.choice([2.0, 4.0]),
                original_max_position_embeddings=longest // r.choice([2, 4, 8]))


def rope(r, longest, kinds=("default", "default", "linear", "yarn", "llama3", "dynamic")):
    kind = r.choice(kinds)
    if kind == "yarn":
        fields = yarn(r, longest)
    elif kind == "llama3":
        fields = llama3(r, longest)
    elif kind == "linear":
        fields = dict(default_rope(r), rope_type="linear", factor=r.choice([1.5, 2.0, 8.0]))
    elif kind == "dynamic":
        fields = dict(default_rope(r), rope_type="dynamic", factor=r.choice([2.0, 4.0]))
    else:
        fields = default_rope(r)
    return dict(rope_parameters=fields)


def older_form(config):
    """rope_theta and rope_scaling beside each other, as files before transformers 5 have them."""
    rope_fields = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope_fields.pop("rope_theta")
    if "partial_rotary_factor" in rope_fields:
        config["partial_rotary_factor"] = rope_fields.pop("partial_rotary_factor")
    config["rope_scaling"] = None if rope_fields["rope_type"] == "default" else rope_fields
    return config


def extra(r):
    more = dict(prompt=r.choice([5, 24, 40]))
    if r.random() < 0.5:
        more["rewrite"] = older_form
    return more


def window(r):
    return r.choice([None, 4, 7, 16])


def layer_types(r, layers):
    return [r.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]


def llama(r):
    f = dict(base(r), **rms(r), **act(r), attention_bias=r.random() < 0.3, mlp_bias=r.random() < 0.3)
    if r.random() < 0.5:
        f.update(head_dim(r))
    return dict(f, **rope(r, f["max_position_embeddings"])), extra(r)


def mistral(r):
    f = dict(base(r), **rms(r), **act(r), sliding_window=window(r))
    if r.random() < 0.5:
        f.update(head_dim(r))
    return dict(f, **rope(r, f["max_position_embeddings"])), extra(r)


def qwen2(r):
    f = dict(base(r), **rms(r), **act(r))
    if r.random() < 0.6:
        f.update(use_sliding_window=r.random() < 0.7, sliding_window=r.choice([4, 7, 16]))
        if r.random() < 0.5:
            f["max_window_layers"] = r.randint(0, f["num_hidden_layers"])
        elif f["use_sliding_window"]:
            f["layer_types"] = layer_types(r, f["num_hidden_layers"])
    return dict(f, **rope(r, f["max_position_embeddings"])), extra(r)


def qwen3(r):
    f, more = qwen2(r)
    return dict(f, **head_dim(r), attention_bias=r.random() < 0.3), more


def gemma(r):
    f = dict(base(r), **rms(r), **head_dim(r), attention_bias=r.random() < 0.3,
             hidden_act=r.choice(["gelu_pytorch_tanh", "gelu", "silu"]))
    return dict(f, **rope(r, f["max_position_embeddings"])), extra(r)


def gemma2(r):
    f = dict(base(r), **rms(r), **head_dim(r), attention_bias=r.random() < 0.3, sliding_window=r.choice([4, 7, 16]),
             hidden_activation=r.choice(["gelu_pytorch_tanh", "gelu", "silu"]), query_pre_attn_scalar=r.choice([8, 24, 64]),
             attn_logit_softcapping=r.choice([None, 2.0, 50.0]), final_logit_softcapping=r.choice([None, 1.5, 30.0]))
    if r.random() < 0.5:
        f["layer_types"] = layer_types(r, f["num_hidden_layers"])
    return dict(f, **rope(r, f["max_position_embeddings"])), extra(r)


def gemma3(r):
    f, more = gemma2(r)
    more.pop("rewrite", None)
    del f["attn_logit_softcapping"]
    kinds = ("default", "linear", "yarn", "llama3")
    f["rope_parameters"] = dict(
        full_attention=rope(r, f["max_position_embeddings"], kinds)["rope_parameters"],
        sliding_attention=rope(r, f["max_position_embeddings"], kinds)["rope_parameters"])
    # transformers 5.24 reads this one field beside the two sections, where nobody writes it.
    for fields in f["rope_parameters"].values():
        fields.pop("truncate", None)
    return f, more


def phi3(r):
    f = dict(base(r), **rms(r), **act(r), sliding_window=window(r))
    longest = f["max_position_embeddings"]
    head = f["hidden_size"] // f["num_attention_heads"]
    partial = r.choice([1.0, 1.0, 0.5, 0.75])
    if r.random() < 0.4 and head * partial % 2 == 0:
        half = int(head * partial) // 2
        original = longest // r.choice([2, 4])
        f["original_max_position_embeddings"] = original
        fields = dict(rope_type="longrope", rope_theta=r.choice([1e4, 1e5]), original_max_position_embeddings=original,
                      short_factor=[round(1 + r.random(), 3) for _ in range(half)],
                      long_factor=[round(1 + 8 * r.random(), 3) for _ in range(half)])
    else:
        fields = rope(r, longest)["rope_parameters"]
    if partial != 1.0:
        fields["partial_rotary_factor"] = partial
    return dict(f, rope_parameters=fields), extra(r)


def experts(r, count_name):
    count = r.choice([2, 4, 5, 8])
    return {count_name: count, "num_experts_per_tok": r.randint(1, count)}


def mixtral(r):
    f, more = mistral(r)
    return dict(f, **experts(r, "num_local_experts")), more


def qwen2_moe(r):
    f, more = qwen2(r)
    dense = [i for i in range(f["num_hidden_layers"]) if r.random() < 0.2]
    return dict(f, **experts(r, "num_experts"), moe_intermediate_size=r.choice([16, 24]),
                shared_expert_intermediate_size=r.choice([16, 40]), norm_topk_prob=r.random() < 0.5,
                decoder_sparse_step=r.choice([1, 1, 2]), mlp_only_layers=dense), more


def qwen3_moe(r):
    f, more = qwen3(r)
    dense = [i for i in range(f["num_hidden_layers"]) if r.random() < 0.2]
    return dict(f, **experts(r, "num_experts"), moe_intermediate_size=r.choice([16, 24]),
                norm_topk_prob=r.random() < 0.5, decoder_sparse_step=r.choice([1, 1, 2]), mlp_only_layers=dense), more


FAMILIES = {
    "llama": ("LlamaForCausalLM", llama),
    "mistral": ("MistralForCausalLM", mistral),
    "qwen2": ("Qwen2ForCausalLM", qwen2),
    "qwen3": ("Qwen3ForCausalLM", qwen3),
    "gemma": ("GemmaForCausalLM", gemma),
    "gemma2": ("Gemma2ForCausalLM", gemma2),
    "gemma3": ("Gemma3ForCausalLM", gemma3),
    "phi3": ("Phi3ForCausalLM", phi3),
    "mixtral": ("MixtralForCausalLM", mixtral),
    "qwen2-moe": ("Qwen2MoeForCausalLM", qwen2_moe),
    "qwen3-moe": ("Qwen3MoeForCausalLM", qwen3_moe),
}
