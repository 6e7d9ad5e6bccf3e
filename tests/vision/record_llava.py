"""Records a tiny random LLaVA and what Hugging Face transformers computes with it, for llava.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/vision/record_llava.py

llava/ gets the folder as transformers saves it, and expected.json: pixels, the visual tokens, and the ids that the language model
writes greedily behind them.
"""

import json
import shutil
from pathlib import Path

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

FOLDER = Path(__file__).parent / "llava"
IMAGE = 90
torch.manual_seed(11)
config = LlavaConfig(
    vision_config=CLIPVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
                                   image_size=12, patch_size=4, projection_dim=8),
    text_config=LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
                            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64,
                            bos_token_id=1, eos_token_id=2, pad_token_id=0),
    image_token_id=IMAGE, image_token_index=IMAGE, image_seq_length=9)
model = LlavaForConditionalGeneration(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_((torch.randn_like(parameter) * 0.3 + (parameter.dim() == 1) * 0.5).bfloat16())
shutil.rmtree(FOLDER, ignore_errors=True)
model.to(torch.bfloat16).save_pretrained(FOLDER)
model = LlavaForConditionalGeneration.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
pixels = torch.rand(2, 3, 12, 12)
with torch.no_grad():
    features = model.get_image_features(pixel_values=pixels)
    features = getattr(features, "pooler_output", features)
    tokens = torch.stack([f for f in features]) if not isinstance(features, torch.Tensor) else features
    prompts = [[1, 5, 7] + [IMAGE] * 9 + [11, 13], [1, 8] + [IMAGE] * 9 + [17, 19, 23]]
    ids = []
    for image, prompt in zip(pixels, prompts):
        out = model.generate(input_ids=torch.tensor([prompt]), pixel_values=image[None], max_new_tokens=12,
                             attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False)
        ids.append(out[0][len(prompt):].tolist())
(FOLDER / "generation_config.json").unlink(missing_ok=True)
flat = lambda tensor: {"shape": list(tensor.shape), "data": [round(x, 7) for x in tensor.flatten().tolist()]}
expected = {"pixels": flat(pixels), "tokens": flat(tokens), "prompts": prompts, "ids": ids}
(FOLDER / "expected.json").write_text(json.dumps(expected) + "\n")
