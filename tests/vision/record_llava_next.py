"""Records a tiny random LLaVA-NeXT and what Hugging Face transformers computes with it, for llava-next.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch "transformers>=5" "pillow>=13"
    venv/bin/python tests/vision/record_llava_next.py

llava-next/ gets the folder as transformers saves it, and expected.json: for each case its images (of images/), every fifth
of their pixels, the visual tokens, the text with places of images, its ids, the logits behind it, and the ids that are written
greedily.
"""

import json
import shutil
from pathlib import Path

import torch
from PIL import Image, ImageOps
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
)
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

HERE = Path(__file__).parent
FOLDER = HERE / "llava-next"
IMAGE = 90
PINPOINTS = [[12, 24], [24, 12], [24, 24], [36, 12], [12, 36]]
CASES = [
    (["wide.png"], "w5 w7 <image> w11"),
    (["tall.jpg"], "<image> w20 w33 w4 w4"),
    (["square.webp"], "w41 <image> w8"),
    (["tiny.png", "photo.webp"], "w9 <image> w10 <image> w12 w13"),
]

torch.manual_seed(12)
config = LlavaNextConfig(
    vision_config=CLIPVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
                                   image_size=12, patch_size=4, projection_dim=8),
    text_config=LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=256,
                            bos_token_id=1, eos_token_id=2, pad_token_id=0),
    image_token_index=IMAGE, image_grid_pinpoints=PINPOINTS)
model = LlavaNextForConditionalGeneration(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        scale = 1.0 if parameter.shape[0] == 96 else 0.3
        parameter.copy_((torch.randn_like(parameter) * scale + (parameter.dim() == 1) * 0.5).bfloat16())
shutil.rmtree(FOLDER, ignore_errors=True)
model.to(torch.bfloat16).save_pretrained(FOLDER)
model = LlavaNextForConditionalGeneration.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
processor = LlavaNextImageProcessorPil(size={"shortest_edge": 12}, crop_size={"height": 12, "width": 12},
                                       image_grid_pinpoints=PINPOINTS)
processor.save_pretrained(FOLDER)


def flat(tensor):
    return {"shape": list(tensor.shape), "data": [round(x, 6) for x in tensor.flatten().tolist()]}


words = {"<image>" if i == IMAGE else "<s>" if i == 1 else f"w{i}": i for i in range(96)}
tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
tokenizer.pre_tokenizer = WhitespaceSplit()
tokenizer.add_special_tokens(["<s>", "<image>"])
tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)

cases = []
for files, text in CASES:
    images = [ImageOps.exif_transpose(Image.open(HERE / "images" / file)).convert("RGB") for file in files]
    batch = processor(images, return_tensors="pt")
    with torch.no_grad():
        features = model.model.get_image_features(pixel_values=batch["pixel_values"], image_sizes=batch["image_sizes"])
        tokens = getattr(features, "pooler_output", features)
        rest = list(tokens)
        ids = tokenizer.encode(text).ids
        placed = [each for id in ids for each in ([IMAGE] * rest.pop(0).shape[0] if id == IMAGE else [id])]
        inputs = {"input_ids": torch.tensor([placed]), "attention_mask": torch.ones(1, len(placed), dtype=torch.long),
                  "pixel_values": batch["pixel_values"], "image_sizes": batch["image_sizes"]}
        logits = model(**inputs).logits[0, -1]
        out = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    pixels = batch["pixel_values"].flatten(0, 1)
    cases.append({
        "files": files,
        "text": text,
        # Tiles that only fill up the batch are all zeros.
        "pixels": flat(pixels[[bool(tile.any()) for tile in pixels]].flatten()[::5]),
        "lengths": [rows.shape[0] for rows in tokens],
        "tokens": flat(torch.cat(list(tokens))),
        "logits": flat(logits),
        "ids": out[0][len(placed):].tolist(),
    })
(FOLDER / "generation_config.json").unlink(missing_ok=True)
(FOLDER / "expected.json").write_text(json.dumps(cases) + "\n")
