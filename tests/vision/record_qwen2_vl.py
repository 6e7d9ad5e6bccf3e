"""Records tiny random models of Qwen2-VL and Qwen2.5-VL and what Hugging Face transformers computes with them, for
qwen2-vl.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch "transformers>=5" "pillow>=13"
    venv/bin/python tests/vision/record_qwen2_vl.py

qwen2-vl/ and qwen2.5-vl/ get the folders as transformers saves them, and expected.json: for each case its images (of
images/), the grids and every ninth of the pixels, the visual tokens, the text with places of images, the ids that are
written greedily, and the logits that each was chosen by.
"""

import json
import shutil
from pathlib import Path

import torch
from PIL import Image, ImageOps
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

HERE = Path(__file__).parent
START, END, IMAGE = 91, 92, 93
CASES = [
    (["wide.png"], "w5 w7 <|vision_start|> <|image_pad|> <|vision_end|> w11"),
    (["tall.jpg"], "<|vision_start|> <|image_pad|> <|vision_end|> w20 w33 w4 w4"),
    (["square.webp", "tiny.png"], "w9 <|vision_start|> <|image_pad|> <|vision_end|> w10 <|vision_start|> <|image_pad|> <|vision_end|> w12"),
    ([], "w41 w8 w60 w2 w7"),
]
TEXT = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 3, 3]}}
PLACES = {"vision_start_token_id": START, "vision_end_token_id": END, "image_token_id": IMAGE, "video_token_id": 94}
MODELS = {
    "qwen2-vl": (Qwen2VLConfig, Qwen2VLForConditionalGeneration,
                 {"depth": 2, "embed_dim": 16, "num_heads": 2, "hidden_size": 32, "mlp_ratio": 2, "patch_size": 4,
                  "spatial_merge_size": 2, "temporal_patch_size": 2}),
    "qwen2.5-vl": (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration,
                   {"depth": 3, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "out_hidden_size": 32,
                    "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 16,
                    "fullatt_block_indexes": [1]}),
}


def flat(tensor):
    return {"shape": list(tensor.shape), "data": [round(x, 6) for x in tensor.flatten().tolist()]}


def save_tokenizer(folder):
    special = {1: "<s>", START: "<|vision_start|>", END: "<|vision_end|>", IMAGE: "<|image_pad|>"}
    tokenizer = Tokenizer(WordLevel({special.get(i, f"w{i}"): i for i in range(96)}, unk_token="w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens(list(special.values()))
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return tokenizer


def record(name, seed):
    config_class, model_class, vision = MODELS[name]
    folder = HERE / name
    torch.manual_seed(seed)
    model = model_class(config_class(text_config=TEXT, vision_config=vision, **PLACES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 1.0 if parameter.shape[0] == 96 else 0.3
            parameter.copy_((torch.randn_like(parameter) * scale + (parameter.dim() == 1) * 0.5).bfloat16())
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    processor = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=256, max_pixels=2048)
    processor.save_pretrained(folder)
    tokenizer = save_tokenizer(folder)
    cases = [run(model, processor, tokenizer, files, text) for files, text in CASES]
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "expected.json").write_text(json.dumps(cases) + "\n")
    for case in cases:
        print(name, case["files"], case["grids"], case["ids"])


@torch.no_grad()
def run(model, processor, tokenizer, files, text):
    images = [ImageOps.exif_transpose(Image.open(HERE / "images" / file)).convert("RGB") for file in files]
    batch = processor(images, return_tensors="pt") if images else {}
    grids = batch["image_grid_thw"] if images else torch.zeros(0, 3, dtype=torch.long)
    rest = [int(grid.prod()) // 4 for grid in grids]
    ids = tokenizer.encode(text).ids
    placed = torch.tensor([[each for id in ids for each in ([IMAGE] * rest.pop(0) if id == IMAGE else [id])]])
    inputs = {"input_ids": placed, "attention_mask": torch.ones_like(placed)}
    tokens = torch.zeros(0, 32)
    if images:
        inputs |= {"pixel_values": batch["pixel_values"], "image_grid_thw": grids,
                   "mm_token_type_ids": (placed == IMAGE).int()}
        features = model.model.get_image_features(pixel_values=batch["pixel_values"], image_grid_thw=grids)
        tokens = torch.cat(list(getattr(features, "pooler_output", features)))
    out = model.generate(**inputs, max_new_tokens=8, do_sample=False, output_logits=True, return_dict_in_generate=True)
    return {
        "files": files,
        "text": text,
        "grids": grids.tolist(),
        "pixels": flat(batch["pixel_values"].flatten()[::9] if images else torch.zeros(0)),
        "tokens": flat(tokens),
        "logits": flat(torch.cat(out.logits)),
        "ids": out.sequences[0][placed.shape[1]:].tolist(),
    }


record("qwen2-vl", 13)
record("qwen2.5-vl", 14)
