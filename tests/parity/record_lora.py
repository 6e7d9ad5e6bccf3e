"""Records tiny random LoRA adapters of the models in models/ and what Hugging Face peft computes with them, for
lora.test.ts. One of them is saved a second time, as a task of TensorRT-LLM.

Run by hand, for all adapters or for those named:

    python -m venv venv && venv/bin/pip install torch transformers peft
    venv/bin/python tests/parity/record_lora.py [model/adapter ...]

Each folder of adapters/ gets the two files as peft saves them, and expected.json with greedy tokens after the prompt of
the model and the logits from which each of those was taken. Base and adapter are rounded to what the files hold before
anything is computed, and all is computed in f32.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

transformers.utils.logging.disable_progress_bar()
HERE = Path(__file__).parent
NUM_GREEDY = 8
MIN_MARGIN = 0.005
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# model/adapter: (fields of the config, dtype of the file)
SPECS = {
    "llama-3.2/a": (dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]), "float32"),
    "llama-3.2/b": (dict(r=8, lora_alpha=16, use_rslora=True, target_modules=LLAMA), "float16"),
    "llama-3.2/c": (dict(r=4, lora_alpha=6, target_modules=LLAMA,
                         rank_pattern={"down_proj": 2, "^model.layers.1.self_attn.q_proj": 6, "layers.1.mlp.up_proj": 3},
                         alpha_pattern={"self_attn.k_proj": 12, "up_proj": 5}), "bfloat16"),
    "llama-3.2/d": (dict(r=3, lora_alpha=9, target_modules=["gate_proj", "down_proj"]), "float32"),
    "llama-3.2/e": (dict(r=2, lora_alpha=4, target_modules=["o_proj", "k_proj"], layers_to_transform=[1]), "float32"),
    "llama-3.2/f": (dict(r=5, lora_alpha=5, target_modules="all-linear"), "float32"),
    "llama-3.2/g": (dict(r=1, lora_alpha=2, target_modules=["up_proj"]), "float32"),
    "gpt2/a": (dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True), "float32"),
    "phi-3/a": (dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]), "float32"),
    "phi-2/a": (dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"]),
                "float32"),
    "gemma-3/a": (dict(r=4, lora_alpha=4, target_modules=LLAMA), "float32"),
    "qwen2-moe/a": (dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]), "float32"),
}


def build(name, seed):
    fields, dtype = SPECS[name]
    torch.manual_seed(seed)
    base = HERE / "models" / name.split("/")[0]
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(model.eval(), peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **fields))
    for parameter_name, weight in model.named_parameters():
        if "lora_" in parameter_name:
            weight.data = (torch.randn_like(weight) / weight.shape[-1] ** 0.5).to(getattr(torch, dtype)).float()
    return model.eval(), json.loads((base / "expected.json").read_text())["prompt"]


@torch.no_grad()
def decode(model, prompt):
    tokens, rows = list(prompt), []
    for _ in range(NUM_GREEDY):
        rows.append(model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1])
        tokens.append(int(rows[-1].argmax()))
    return tokens[len(prompt):], torch.stack(rows)


def save(model, directory, dtype):
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    (directory / "README.md").unlink(missing_ok=True)
    path = directory / "adapter_model.safetensors"
    tensors = {key: tensor.to(getattr(torch, dtype)).contiguous() for key, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = ""
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


# Module ids of TensorRT-LLM by the names of Llama's modules.
MODULE_IDS = dict(q_proj=1, k_proj=2, v_proj=3, o_proj=4, gate_proj=5, down_proj=6, up_proj=7)


def save_task(directory, task):
    """The same adapter as TensorRT-LLM's converter lays it out: rows padded to the longest, the scale in B."""
    config = json.loads((directory / "adapter_config.json").read_text())
    tensors = load_file(directory / "adapter_model.safetensors")
    rows, described = [], []
    for key in sorted(key for key in tensors if ".lora_A." in key):
        parts = key.split(".")
        a, b = tensors[key], tensors[key.replace(".lora_A.", ".lora_B.")]
        scale = config["lora_alpha"] / a.shape[0]
        rows.append(torch.cat([a.flatten(), (b * scale).flatten()]))
        described.append([MODULE_IDS[parts[-3]], int(parts[parts.index("layers") + 1]), a.shape[0]])
    width = max(len(row) for row in rows)
    weights = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
    folder = HERE / "tasks" / task
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "model.lora_weights.npy", weights.unsqueeze(0).numpy())
    np.save(folder / "model.lora_config.npy", np.array([described], dtype=np.int32))


def record(name):
    for seed in range(300):
        model, prompt = build(name, seed)
        greedy, logits = decode(model, prompt)
        top = logits.topk(2).values
        if (top[:, 0] - top[:, 1]).min() >= MIN_MARGIN:
            break
    else:
        sys.exit(f"{name}: no seed gives clear greedy choices")
    directory = HERE / "adapters" / name
    save(model, directory, SPECS[name][1])
    expected = dict(greedy=greedy, logits=[[round(x, 5) for x in row] for row in logits.tolist()])
    (directory / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{name}: seed {seed}, {size} bytes, logits up to {logits.abs().max():.2f}", flush=True)


for name in sys.argv[1:] or SPECS:
    record(name)
save_task(HERE / "adapters" / "llama-3.2" / "d", "7")
