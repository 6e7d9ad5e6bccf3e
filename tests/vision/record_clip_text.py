"""Records a tiny random text encoder of CLIP and what Hugging Face transformers computes with it, for clip-text.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch "transformers>=5"
    venv/bin/python tests/vision/record_clip_text.py

clip-text/ gets the folder as transformers saves it, with a tokenizer of CLIP's kind (lower case, a mark at the end of words,
end-of-text as padding), and expected.json: texts, their ids, and the projected vectors.
"""

import json
import shutil
from pathlib import Path

import torch
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer

FOLDER = Path(__file__).parent / "clip-text"
TEXTS = [
    "a photo of a cat",
    "A Photo of TWO dogs, running!",
    "x",
    "the  cat's   hat... isn't 12 years old",
    "caf\u00e9 na\u00efve \u00fcber",
    "a dog and a cat and a dog and a cat and a dog and a cat and a dog and a cat",
    "\u732b 42",
    "",
]
MERGES = ["a t</w>", "o f</w>", "c at</w>", "d o", "do g</w>", "do g", "p h", "o t", "ph ot", "phot o</w>", "a n", "an d</w>",
          "t h", "th e</w>", "dog s</w>", "' s</w>"]

torch.manual_seed(15)
shutil.rmtree(FOLDER, ignore_errors=True)
FOLDER.mkdir()
# As CLIP's: all bytes, all bytes at the end of a word, merges, two marks.
shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
letters = [chr(byte) for byte in shown] + [chr(256 + i) for i in range(256 - len(shown))]
words = letters + [f"{letter}</w>" for letter in letters] + [merge.replace(" ", "") for merge in MERGES]
words = list(dict.fromkeys(words)) + ["<|startoftext|>", "<|endoftext|>"]
vocabulary = {word: i for i, word in enumerate(words)}
tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[tuple(merge.split(" ")) for merge in MERGES], model_max_length=24)
tokenizer.save_pretrained(FOLDER)
end = vocabulary["<|endoftext|>"]
config = CLIPTextConfig(vocab_size=len(words), hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                        num_attention_heads=2, max_position_embeddings=24, projection_dim=12,
                        bos_token_id=end - 1, eos_token_id=end, pad_token_id=end)
model = CLIPTextModelWithProjection(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_((torch.randn_like(parameter) * 0.3 + (parameter.dim() == 1) * 0.5).bfloat16())
model.to(torch.bfloat16).save_pretrained(FOLDER)
model = CLIPTextModelWithProjection.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
recorded = []
for text in TEXTS:
    ids = tokenizer(text, truncation=True, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        vector = model(input_ids=ids).text_embeds[0]
    recorded.append({"text": text, "ids": ids[0].tolist(), "vector": [round(x, 7) for x in vector.tolist()]})
    print(text, ids[0].tolist())
(FOLDER / "expected.json").write_text(json.dumps(recorded) + "\n")
