"""Records one tiny random model in the ways in which checkpoints keep FP8 and integers, and what torch computes
with the numbers that they stand for, for quantized.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch transformers compressed-tensors
    venv/bin/python tests/parity/record_quantized.py

Each folder of quantized/ gets config.json, model.safetensors and expected.json. Integers are packed by the library that
writes such checkpoints.
"""

import json
import shutil
from pathlib import Path

import torch
import transformers
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file

HERE = Path(__file__).parent / "quantized"
FIELDS = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
              tie_word_embeddings=True)
LINEAR = ("_proj.weight",)
E4M3 = torch.float8_e4m3fn
BLOCK = 32


def float8(weight, scale):
    stored = (weight / scale).clamp(-448, 448).to(E4M3)
    return stored, stored.float() * scale


def fp8_tensor(name, weight):
    scale = weight.abs().max() / 448
    stored, wide = float8(weight, scale)
    return {name: stored, f"{name}_scale": scale.reshape(()), name.replace("weight", "input_scale"): torch.tensor(0.5)}, wide


def fp8_channel(name, weight):
    scale = (weight.abs().amax(dim=1, keepdim=True) / 448).bfloat16().float()
    stored, wide = float8(weight, scale)
    return {name: stored, f"{name}_scale": scale.bfloat16()}, wide


def fp8_block(name, weight):
    rows, columns = weight.shape
    blocks = weight.reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    scale = blocks.abs().amax(dim=(1, 3)) / 448
    spread = scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    stored, wide = float8(weight, spread)
    return {name: stored, f"{name}_scale_inv": scale}, wide


def fp8_e5m2(name, weight):
    stored = weight.to(torch.float8_e5m2)
    return {name: stored}, stored.float()


def int8_channel(name, weight):
    scale = (weight.abs().amax(dim=1, keepdim=True) / 127).half()
    stored = (weight / scale.float()).round().clamp(-128, 127)
    return {name: stored.to(torch.int8), f"{name}_scale": scale}, stored * scale.float()


def packed(bits, is_symmetric):
    def quantize(name, weight):
        module = name.removesuffix(".weight")
        rows, columns = weight.shape
        groups = weight.reshape(rows, columns // BLOCK, BLOCK)
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if is_symmetric:
            scale = (groups.abs().amax(dim=2) / high).half().float()
            zero = torch.zeros_like(scale)
        else:
            scale = ((groups.amax(dim=2) - groups.amin(dim=2)) / (high - low)).half().float()
            zero = (low - groups.amin(dim=2) / scale).round().clamp(low, high)
        stored = (groups / scale[..., None] + zero[..., None]).round().clamp(low, high)
        wide = ((stored - zero[..., None]) * scale[..., None]).reshape(rows, columns)
        tensors = {f"{module}.weight_packed": pack_to_int32(stored.reshape(rows, columns).to(torch.int8), bits),
                   f"{module}.weight_scale": scale.half(),
                   f"{module}.weight_shape": torch.tensor([rows, columns], dtype=torch.int64)}
        if not is_symmetric:
            tensors[f"{module}.weight_zero_point"] = pack_to_int32(zero.to(torch.int8), bits, packed_dim=0).contiguous()
        return tensors, wide
    return quantize


def compressed(form):
    return dict(quant_method="compressed-tensors", format=form, quantization_status="compressed", ignore=["lm_head"])


# name: (what becomes of a matrix, quantization_config)
SPECS = {
    "fp8-tensor": (fp8_tensor, dict(quant_method="fp8", activation_scheme="static")),
    "fp8-channel": (fp8_channel, compressed("float-quantized")),
    "fp8-block": (fp8_block, dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[BLOCK, BLOCK])),
    "fp8-e5m2": (fp8_e5m2, None),
    "int8-channel": (int8_channel, compressed("int-quantized")),
    "int4-group": (packed(4, True), compressed("pack-quantized")),
    "int4-zeros": (packed(4, False), compressed("pack-quantized")),
    "int8-group": (packed(8, True), compressed("pack-quantized")),
}


@torch.no_grad()
def record(name):
    quantize, quantization = SPECS[name]
    torch.manual_seed(7)
    config = transformers.LlamaConfig(**FIELDS)
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).float().eval()
    tensors = {}
    for key, weight in model.named_parameters():
        if weight.dim() == 2:
            weight.data = torch.randn_like(weight) / weight.shape[1] ** 0.5
        if key.endswith(LINEAR):
            stored, weight.data = quantize(key, weight.data)
            tensors.update(stored)
        else:
            weight.data = weight.data.bfloat16().float()
            tensors[key] = weight.data.bfloat16()
    prompt = torch.randint(3, 128, (1, 24))
    logits = model(input_ids=prompt, use_cache=False).logits[0, -1]
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, directory / "model.safetensors")
    fields = dict(FIELDS, architectures=["LlamaForCausalLM"], rms_norm_eps=config.rms_norm_eps, torch_dtype="bfloat16")
    if quantization is not None:
        fields["quantization_config"] = quantization
    (directory / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    expected = dict(prompt=prompt.tolist()[0], logits=[round(x, 5) for x in logits.tolist()])
    (directory / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    print(name, sum(path.stat().st_size for path in directory.iterdir()), f"logits up to {logits.abs().max():.2f}")


for each in SPECS:
    record(each)
