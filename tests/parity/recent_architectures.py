"""Tiny configurations of the later architectures, for record_architectures.py, and the fields that many share."""

VOCABULARY = 72

BASE = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
MOE = dict(num_local_experts=4, num_experts_per_tok=2)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
SLIDING = ["sliding_attention", "full_attention"]
MLA = dict(num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8)
GLM_MOE = dict(moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
               routed_scaling_factor=1.5, head_dim=8)


def rope(**fields):
    return dict(rope_parameters=dict(dict(rope_type="default", rope_theta=1e4), **fields))


LINEAR = "linear_attention"
GEMMA4 = dict(BASE, vocab_size_per_layer_input=VOCABULARY, head_dim=8, global_head_dim=16, sliding_window=8)
ERNIE_MOE = dict(moe_num_experts=6, moe_k=3, moe_intermediate_size=16)
LFM2_MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, conv_L_cache=3)
LITE_MOE = dict(moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                routed_scaling_factor=1.5)
EXAONE_MOE = dict(moe_intermediate_size=16, num_experts=6, num_experts_per_tok=3, head_dim=8, routed_scaling_factor=1.5)
AFMOE = dict(moe_intermediate_size=16, num_experts=6, num_experts_per_tok=3, head_dim=8)
GPT2 = dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
GPT_NEO = dict(vocab_size=VOCABULARY, hidden_size=32, num_heads=4, max_position_embeddings=64, window_size=8,
               bos_token_id=1, eos_token_id=2)
GEMMA3N = dict(BASE, vocab_size_per_layer_input=VOCABULARY, head_dim=8, sliding_window=8, hidden_size_per_layer_input=8)
BAMBA = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1)
RECENT = {
    "gemma-4": ("Gemma4ForCausalLM", dict(GEMMA4, num_hidden_layers=5, num_kv_shared_layers=2,
                                          hidden_size_per_layer_input=8, use_double_wide_mlp=True,
                                          layer_types=[*SLIDING, "sliding_attention", *SLIDING],
                                          final_logit_softcapping=2.0)),
    "gemma-4-2": ("Gemma4ForCausalLM", dict(GEMMA4, hidden_size_per_layer_input=0, attention_k_eq_v=True,
                                            num_global_key_value_heads=1, num_hidden_layers=3, sliding_window=5,
                                            layer_types=["sliding_attention", *SLIDING], enable_moe_block=True,
                                            num_experts=6, top_k_experts=3, moe_intermediate_size=16)),
    "apertus": ("ApertusForCausalLM", dict(BASE, **rope(rope_theta=12e6, **LLAMA3))),
    "apertus-2": ("ApertusForCausalLM", dict(BASE, num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True,
                                             **rope())),
    "ernie-4.5-moe": ("Ernie4_5_MoeForCausalLM", dict(BASE, **ERNIE_MOE, moe_num_shared_experts=2, **rope())),
    "ernie-4.5-moe-2": ("Ernie4_5_MoeForCausalLM", dict(BASE, **ERNIE_MOE, num_hidden_layers=4, use_bias=True,
                                                        moe_num_shared_experts=0, tie_word_embeddings=False,
                                                        moe_layer_start_index=1, moe_layer_end_index=2,
                                                        moe_layer_interval=2, **rope(rope_theta=5e5))),
    "hunyuan-moe": ("HunYuanMoEV1ForCausalLM", dict(BASE, head_dim=8, num_experts=4, moe_topk=2, **rope())),
    "hunyuan-moe-2": ("HunYuanMoEV1ForCausalLM", dict(BASE, head_dim=12, num_experts=5, moe_topk=[3, 3],
                                                      attention_bias=True, tie_word_embeddings=True,
                                                      **rope(rope_theta=5e5))),
    "lfm2-moe": ("Lfm2MoeForCausalLM", dict(BASE, **LFM2_MOE, num_dense_layers=1, num_hidden_layers=3,
                                            layer_types=["conv", "full_attention", "conv"], **rope(rope_theta=1e6))),
    "lfm2-moe-2": ("Lfm2MoeForCausalLM", dict(BASE, **{**LFM2_MOE, "conv_L_cache": 4}, num_dense_layers=0, conv_bias=True,
                                              use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=1.5,
                                              tie_word_embeddings=False, layer_types=["full_attention", "conv"],
                                              **rope())),
    "glm-4.7-flash": ("Glm4MoeLiteForCausalLM", dict(BASE, **MLA, **LITE_MOE, q_lora_rank=20, num_hidden_layers=3,
                                                     **rope())),
    "glm-4.7-flash-2": ("Glm4MoeLiteForCausalLM", dict(BASE, **MLA, **LITE_MOE, q_lora_rank=None, n_group=4, topk_group=2,
                                                       norm_topk_prob=False, rope_interleave=False,
                                                       mlp_layer_types=["sparse", "dense"], tie_word_embeddings=True,
                                                       **rope(**YARN, mscale=1.0, mscale_all_dim=1.0))),
    "youtu": ("YoutuForCausalLM", dict(BASE, **MLA, q_lora_rank=20, tie_word_embeddings=True, **rope(rope_theta=1e6))),
    "youtu-2": ("YoutuForCausalLM", dict(BASE, **{**MLA, "v_head_dim": 12}, q_lora_rank=None, rope_interleave=False,
                                         tie_word_embeddings=False, **rope(**YARN, mscale=0.7, mscale_all_dim=0.7))),
    "minicpm3": ("MiniCPM3ForCausalLM", dict(BASE, **MLA, q_lora_rank=20, scale_emb=6, scale_depth=1.4, dim_model_base=16,
                                             **rope(rope_type="longrope", short_factor=[1.0, 1.2],
                                                    long_factor=[1.5, 3.0], original_max_position_embeddings=64))),
    "minicpm3-2": ("MiniCPM3ForCausalLM", dict(BASE, **{**MLA, "qk_nope_head_dim": 12}, q_lora_rank=24,
                                               tie_word_embeddings=False, scale_emb=2, scale_depth=0.7,
                                               dim_model_base=64, **rope())),
    "minicpm": ("GraniteForCausalLM", dict(BASE, embedding_multiplier=6.0, logits_scaling=2.0, attention_multiplier=8**-0.5,
                                           residual_multiplier=1.4 / 2**0.5, tie_word_embeddings=True, **rope()), 30,
                "MiniCPMForCausalLM"),
    "minicpm-2": ("GraniteForCausalLM", dict(BASE, num_key_value_heads=4, num_hidden_layers=3, logits_scaling=0.5,
                                             embedding_multiplier=2.0, attention_multiplier=8**-0.5,
                                             residual_multiplier=0.7 / 3**0.5, **rope()), 30, "MiniCPMForCausalLM"),
    "exaone-moe": ("ExaoneMoeForCausalLM", dict(BASE, **EXAONE_MOE, num_shared_experts=1, num_hidden_layers=4,
                                                sliding_window=8, sliding_window_pattern=4, **rope(**LLAMA3))),
    "exaone-moe-2": ("ExaoneMoeForCausalLM", dict(BASE, **{**EXAONE_MOE, "head_dim": 12}, num_shared_experts=2, n_group=3,
                                                  topk_group=2, norm_topk_prob=False, sliding_window=5,
                                                  sliding_window_pattern=2, mlp_layer_types=["sparse", "dense"],
                                                  tie_word_embeddings=True, **rope())),
    "afmoe": ("AfmoeForCausalLM", dict(BASE, **AFMOE, num_dense_layers=1, sliding_window=8, layer_types=SLIDING,
                                       mup_enabled=True, route_scale=1.5, num_shared_experts=1, **rope())),
    "afmoe-2": ("AfmoeForCausalLM", dict(BASE, **{**AFMOE, "head_dim": 12}, num_dense_layers=0, sliding_window=5,
                                         global_attn_every_n_layers=2, num_hidden_layers=3, num_shared_experts=2,
                                         tie_word_embeddings=True, **rope(rope_theta=5e5))),
    "flex-olmo": ("FlexOlmoForCausalLM", dict(BASE, num_experts=5, num_experts_per_tok=2, **rope(rope_theta=5e5))),
    "flex-olmo-2": ("FlexOlmoForCausalLM", dict(BASE, num_experts=4, num_experts_per_tok=3, norm_topk_prob=True,
                                                num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True,
                                                **rope())),
    "hyperclova-x": ("HyperCLOVAXForCausalLM", dict(BASE, embedding_multiplier=4.0, logits_scaling=0.5,
                                                    residual_multiplier=0.6, attention_multiplier=0.2, **rope())),
    "hyperclova-x-2": ("HyperCLOVAXForCausalLM", dict(BASE, use_post_norm=False, attention_bias=True, mlp_bias=True,
                                                      tie_word_embeddings=True, **rope(**LLAMA3))),
    "jais-2": ("Jais2ForCausalLM", dict(BASE, **rope())),
    "jais-2-2": ("Jais2ForCausalLM", dict(BASE, num_key_value_heads=4, attention_bias=False, mlp_bias=False,
                                          tie_word_embeddings=True, **rope(rope_theta=5e5))),
    "gpt-bigcode": ("GPTBigCodeForCausalLM", dict(GPT2, multi_query=True)),
    "gpt-bigcode-2": ("GPTBigCodeForCausalLM", dict(GPT2, multi_query=False, n_inner=40, activation_function="gelu",
                                                    tie_word_embeddings=False)),
    "gpt-neo": ("GPTNeoForCausalLM", dict(GPT_NEO, num_layers=2, attention_types=[[["global", "local"], 1]])),
    "gpt-neo-2": ("GPTNeoForCausalLM", dict(GPT_NEO, num_layers=3, attention_types=[[["local"], 2], [["global"], 1]],
                                            window_size=5, intermediate_size=40, activation_function="gelu",
                                            tie_word_embeddings=False)),
    "gemma-3n": ("Gemma3nForCausalLM", dict(GEMMA3N, num_hidden_layers=5, num_kv_shared_layers=2, altup_num_inputs=4,
                                            layer_types=[*SLIDING, "sliding_attention", *SLIDING],
                                            activation_sparsity_pattern=[0.95, 0.6, 0.0, 0.0, 0.0], laurel_rank=8,
                                            final_logit_softcapping=2.0)),
    "gemma-3n-2": ("Gemma3nForCausalLM", dict(GEMMA3N, num_hidden_layers=3, num_kv_shared_layers=1, altup_num_inputs=2,
                                              layer_types=["full_attention", "sliding_attention", "full_attention"],
                                              intermediate_size=[40, 24, 40], altup_correct_scale=False, laurel_rank=4,
                                              vocab_size_per_layer_input=40, sliding_window=5, num_key_value_heads=1)),
    "bamba": ("BambaForCausalLM", dict(BASE, **BAMBA, num_hidden_layers=3, attn_layer_indices=[1],
                                       **rope(partial_rotary_factor=0.5))),
    "bamba-2": ("BambaForCausalLM", dict(BASE, **{**BAMBA, "mamba_n_groups": 2, "mamba_d_head": 16, "mamba_n_heads": 4},
                                         attn_layer_indices=[0], mamba_conv_bias=False, mamba_proj_bias=True,
                                         mamba_d_conv=3, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                         **rope(partial_rotary_factor=0.5, rope_theta=5e5))),
}
