"""Records tiny models with draft heads, and the drafts that plain torch makes with them, for draft-heads.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record_draft_heads.py

draft-heads/llama/model and draft-heads/llama/eagle3 are a Llama and an EAGLE-3 head in the layout of
yuhuili/EAGLE3-LLaMA3.1-Instruct-8B; draft-heads/deepseek has a layer of multi-token prediction behind the model's own, in the
layout of DeepSeek-V3. Heads are trained briefly on what their model says, so that some drafts are right. expected.json has
prompts, greedy tokens, and the chain of drafts behind some of them. All is computed in f32 from what the files hold.
"""

import json
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.llama import modeling_llama as llama

FOLDER = Path(__file__).parent / "draft-heads"
VOCAB, DRAFT_VOCAB = 256, 200
NUM_GREEDY, NUM_DRAFTS = 32, 4
# Choices closer than this could fall either way in f32: such chains are left out.
MIN_MARGIN = 0.02
BASE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_attention_heads=2, max_position_embeddings=256,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.3, tie_word_embeddings=False,
            rope_parameters=dict(rope_type="default", rope_theta=1e4))
LLAMA = dict(BASE, num_hidden_layers=7, num_key_value_heads=1, head_dim=16)
DEEPSEEK = dict(BASE, num_hidden_layers=2, kv_lora_rank=16, q_lora_rank=20, qk_nope_head_dim=8, qk_rope_head_dim=8,
                v_head_dim=16, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=24,
                first_k_dense_replace=1, n_group=1, topk_group=1, routed_scaling_factor=1.5, num_key_value_heads=2)


def causal(length):
    return torch.full((length, length), float("-inf")).triu(1)[None, None]


def rms(weight, x, epsilon):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


class EagleHead(nn.Module):
    """One decoder layer over [norm of the embedding | norm of the hidden state]."""

    def __init__(self, config, kept):
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.fc = nn.Linear(3 * size, size, bias=False)
        self.midlayer = nn.ModuleDict(dict(
            self_attn=llama.LlamaAttention(config, 0), mlp=llama.LlamaMLP(config), hidden_norm=llama.LlamaRMSNorm(size),
            input_layernorm=llama.LlamaRMSNorm(size), post_attention_layernorm=llama.LlamaRMSNorm(size)))
        for name in ("q_proj", "k_proj", "v_proj"):
            whole = getattr(self.midlayer.self_attn, name)
            setattr(self.midlayer.self_attn, name, nn.Linear(2 * size, whole.out_features, bias=False))
        self.norm = llama.LlamaRMSNorm(size)
        self.lm_head = nn.Linear(size, DRAFT_VOCAB, bias=False)
        self.rope = llama.LlamaRotaryEmbedding(config)
        self.kept = kept

    def observed(self, model, tokens):
        states = model.model(tokens, output_hidden_states=True).hidden_states
        count = model.config.num_hidden_layers
        return torch.cat([states[i] for i in (2, count // 2, count - 3)], -1)

    def first(self, observed):
        return self.fc(observed)

    def forward(self, embedded, hidden):
        layer = self.midlayer
        x = torch.cat([layer.input_layernorm(embedded), layer.hidden_norm(hidden)], -1)
        positions = torch.arange(x.shape[1])[None]
        attended, _ = layer.self_attn(x, position_embeddings=self.rope(x, positions), attention_mask=causal(x.shape[1]))
        hidden = hidden + attended
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self.lm_head(self.norm(hidden)), hidden


class MtpHead(nn.Module):
    """The layer behind the model's own: it reads a projection of the same two rows."""

    def __init__(self, model):
        super().__init__()
        config = model.config
        size = config.hidden_size
        self.enorm, self.hnorm = deepseek.DeepseekV3RMSNorm(size), deepseek.DeepseekV3RMSNorm(size)
        self.eh_proj = nn.Linear(2 * size, size, bias=False)
        self.layer = deepseek.DeepseekV3DecoderLayer(config, config.num_hidden_layers)
        self.norm = deepseek.DeepseekV3RMSNorm(size)
        self.rope = deepseek.DeepseekV3RotaryEmbedding(config)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.1)
        self.lm_head = [model.lm_head]
        self.kept = torch.arange(VOCAB)

    def observed(self, model, tokens):
        return model.model(tokens).last_hidden_state

    def first(self, observed):
        return observed

    def forward(self, embedded, hidden):
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], -1))
        positions = torch.arange(x.shape[1])[None]
        x = self.layer(x, attention_mask=causal(x.shape[1]), position_embeddings=self.rope(x, positions))
        x = x[0] if isinstance(x, tuple) else x
        return self.lm_head[0](self.norm(x)), x


def greedy(model, prompts, count):
    tokens = prompts
    for _ in range(count):
        tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], 1)
    return tokens


def train(model, head, texts, steps):
    """Two steps of the chain, the second from the head's own hidden states."""
    embed = model.model.embed_tokens
    row_of = torch.full((VOCAB,), -100)
    row_of[head.kept] = torch.arange(len(head.kept))
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = texts[torch.randint(len(texts), (16,))]
        with torch.no_grad():
            observed = head.observed(model, batch)
        loss = 0
        hidden = head.first(observed[:, :-2])
        for step in (1, 2):
            logits, hidden = head(embed(batch[:, step:step - 2 or None][:, :hidden.shape[1]]), hidden)
            wanted = row_of[batch[:, step + 1:]]
            width = min(logits.shape[1], wanted.shape[1])
            loss = loss + nn.functional.cross_entropy(logits[:, :width].reshape(-1, logits.shape[-1]),
                                                      wanted[:, :width].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", float(loss))


@torch.no_grad()
def chain(model, head, tokens):
    """Drafts behind the tokens; undefined where two candidates are too close."""
    observed = head.observed(model, tokens[:, :-1])
    hidden = head.first(observed)
    following = tokens[:, 1:]
    drafts = []
    for _ in range(NUM_DRAFTS):
        logits, out = head(model.model.embed_tokens(following), hidden)
        best = logits[0, -1].topk(2)
        if best.values[0] - best.values[1] < MIN_MARGIN:
            return None
        token = int(head.kept[best.indices[0]])
        drafts.append(token)
        hidden = torch.cat([hidden, out[:, -1:]], 1)
        following = torch.cat([following, torch.tensor([[token]])], 1)
    return drafts


def expected(model, head, prompts):
    recorded = []
    for prompt in prompts:
        tokens = greedy(model, prompt[None], NUM_GREEDY)[0]
        margins = model(tokens[None]).logits[0, len(prompt) - 1:-1].topk(2, -1).values
        if (margins[:, 0] - margins[:, 1]).min() < MIN_MARGIN:
            continue
        chains = [(length, chain(model, head, tokens[None, :length])) for length in range(len(prompt) + 1, len(tokens) - 4, 3)]
        recorded.append(dict(prompt=prompt.tolist(), tokens=tokens[len(prompt):].tolist(),
                             drafts=[dict(length=length, chain=each) for length, each in chains if each is not None]))
        right = sum(a == b for length, each in chains if each for a, b in zip(each, tokens[length:].tolist()))
        print(len(recorded), "right", right, "of", NUM_DRAFTS * len(recorded[-1]["drafts"]))
        if len(recorded) == 4:
            return recorded
    raise SystemExit("too few prompts with clear choices")


def rounded(module):
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(torch.bfloat16).to(torch.float32)
    return module


def stored(module, prefix=""):
    return {prefix + name: tensor.to(torch.bfloat16).contiguous() for name, tensor in module.state_dict().items()}


def write(folder, recorded):
    (folder / "expected.json").write_text(json.dumps(recorded, separators=(",", ":")) + "\n")


@torch.no_grad()
def save_eagle(folder, head):
    tensors = stored(head)
    tensors["d2t"] = head.kept - torch.arange(DRAFT_VOCAB)
    tensors["t2d"] = torch.isin(torch.arange(VOCAB), head.kept)
    config = dict(head.config.to_dict(), architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=DRAFT_VOCAB)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def record_llama(prompts):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**LLAMA, attn_implementation="eager")
    model = rounded(llama.LlamaForCausalLM(config).eval())
    with torch.no_grad():
        texts = greedy(model, torch.randint(3, VOCAB, (120, 8)), NUM_GREEDY)
    counts = torch.bincount(texts[:, 8:].reshape(-1), minlength=VOCAB)
    kept = counts.argsort(descending=True)[:DRAFT_VOCAB].sort().values
    head = EagleHead(transformers.LlamaConfig(**{**LLAMA, "num_hidden_layers": 1}, attn_implementation="eager"), kept)
    train(model, head, texts, 200)
    rounded(head)
    model.save_pretrained(FOLDER / "llama" / "model")
    model_tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(FOLDER / "llama/model/model.safetensors").items()}
    save_file(model_tensors, FOLDER / "llama/model/model.safetensors", metadata=dict(format="pt"))
    save_eagle(FOLDER / "llama" / "eagle3", head)
    with torch.no_grad():
        write(FOLDER / "llama", expected(model, head, prompts))


def record_deepseek(prompts):
    torch.manual_seed(2)
    config = transformers.DeepseekV3Config(**DEEPSEEK, attn_implementation="eager")
    model = rounded(deepseek.DeepseekV3ForCausalLM(config).eval())
    with torch.no_grad():
        texts = greedy(model, torch.randint(3, VOCAB, (120, 8)), NUM_GREEDY)
    head = MtpHead(model)
    train(model, head, texts, 200)
    rounded(head).eval()
    folder = FOLDER / "deepseek"
    model.save_pretrained(folder)
    at = f"model.layers.{config.num_hidden_layers}."
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(folder / "model.safetensors").items()}
    # As a save of the model itself writes a layer: experts one by one.
    for name, tensor in stored(head.layer, at).items():
        if name.endswith("mlp.experts.gate_up_proj"):
            for i, expert in enumerate(tensor):
                gate, up = expert.chunk(2)
                base = name.removesuffix("gate_up_proj") + f"{i}."
                tensors[f"{base}gate_proj.weight"], tensors[f"{base}up_proj.weight"] = gate.contiguous(), up.contiguous()
        elif name.endswith("mlp.experts.down_proj"):
            for i, expert in enumerate(tensor):
                tensors[name.removesuffix("down_proj") + f"{i}.down_proj.weight"] = expert.contiguous()
        else:
            tensors[name] = tensor
    for name in ("enorm", "hnorm", "eh_proj"):
        tensors[f"{at}{name}.weight"] = getattr(head, name).weight.detach().to(torch.bfloat16)
    tensors[f"{at}shared_head.norm.weight"] = head.norm.weight.detach().to(torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", metadata=dict(format="pt"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, num_nextn_predict_layers=1), indent=1, sort_keys=True) + "\n")
    with torch.no_grad():
        write(folder, expected(model, head, prompts))


def main():
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    torch.manual_seed(0)
    prompts = torch.randint(3, VOCAB, (40, 8))
    record_llama(prompts)
    record_deepseek(prompts)


main()
