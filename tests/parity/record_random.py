"""Records random configurations of each family and what Hugging Face transformers computes with them, for random.test.ts.

Run by hand, for all families or for those named:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record_random.py [family ...]

Fields are drawn from their ranges (random_families.py). Weights come from a generator that counts (weights_of below, and
random/generated-model.ts), so that only configurations, names and shapes of tensors, hashes of the greedy tokens and two
logits are stored: random/<family>.json.gz.
"""

import gzip
import hashlib
import json
import math
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from random_families import FAMILIES
from safetensors.torch import load_file, save_file

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
RANDOM = Path(__file__).parent / "random"
NUM_CONFIGS = 200
NUM_GREEDY = 8
MAX_SEEDS = 12
# Greedy choices closer than this could fall either way in f32: other weights are tried.
MIN_MARGIN = 0.005
LAYER = "layers."


def mix(x):
    """A permutation of 32 bits ("lowbias32", Wellons 2018, Hash Function Prospector)."""
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


def fnv(text):
    h = 0x811C9DC5
    for byte in text.encode():
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return h


def numbers(key, count):
    """Whole numbers of 24 bits: a function of the key and of the place, so that both languages can make them."""
    start = np.uint32(fnv(key))
    places = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B9)
    return mix((places.astype(np.uint32) + start)) >> np.uint32(8)


def weights_of(seed, name, shape, base):
    unit = numbers(f"{seed}/{name}", math.prod(shape)).astype(np.float64) / 2**23 - 1
    if len(shape) == 1:
        scale = 0.3
    else:
        scale = math.sqrt(3 / shape[-1]) * (0.5 if "embed" in name or "lm_head" in name else 1)
    return torch.from_numpy((base + scale * unit).astype(np.float32).reshape(shape))


def prompt_of(seed, length, vocabulary):
    return [3 + int(number) % (vocabulary - 3) for number in numbers(f"{seed}/prompt", length)]


@torch.no_grad()
def greedy(model, prompt):
    """Tokens, the smallest distance to a second choice, the largest logit of the first and of the last step."""
    tokens, margins, largest = list(prompt), [], []
    for _ in range(NUM_GREEDY):
        row = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
        first, second = row.topk(2).values.tolist()
        margins.append(first - second)
        largest.append(first)
        tokens.append(int(row.argmax()))
    return tokens[len(prompt):], min(margins), (largest[0], largest[-1])


def manifest(path):
    """Shapes by name, as the files have them; "+" says that the numbers lie around 1."""
    tensors = {}
    for name, tensor in load_file(path).items():
        around = 1 if tensor.dim() == 1 and float(tensor[0]) == 1 else 0
        tensors[name] = (list(tensor.shape), around)
    return tensors


def compact(tensors):
    """Layers alike are told once: {"name with *": ["shape", first layer, ...]} as one text a name."""
    merged = {}
    for name, (shape, base) in tensors.items():
        parts = name.split(".")
        at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
        key, layer = (name, None) if at is None else (".".join(parts[:at] + ["*"] + parts[at + 1:]), parts[at])
        text = ("+" if base else "") + "x".join(map(str, shape))
        merged.setdefault(f"{key} {text}", []).append(layer)
    return [" ".join([key] + [layer for layer in layers if layer is not None]) for key, layers in merged.items()]


def record(class_name, fields, index, extra):
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**fields)
    config._attn_implementation = "eager"
    config.architectures = [class_name]
    with tempfile.TemporaryDirectory() as folder:
        model_class(config).float().save_pretrained(folder)
        path = Path(folder) / "model.safetensors"
        tensors = manifest(path)
        length = extra.get("prompt", 24)
        for seed in range(index * MAX_SEEDS, (index + 1) * MAX_SEEDS):
            save_file({name: weights_of(seed, name, shape, base) for name, (shape, base) in tensors.items()}, path,
                      metadata={"format": "pt"})
            model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
            prompt = prompt_of(seed, length, config.vocab_size)
            tokens, margin, largest = greedy(model, prompt)
            if margin >= MIN_MARGIN:
                break
        else:
            return None
        written = json.loads((Path(folder) / "config.json").read_text())
    digest = hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()[:12]
    return dict(config=extra.get("rewrite", lambda c: c)(written), seed=seed, prompt=length, tensors=compact(tensors),
                ids=digest, logits=[round(value, 5) for value in largest])


def main(names):
    RANDOM.mkdir(exist_ok=True)
    for family in names or FAMILIES:
        class_name, draw = FAMILIES[family]
        rows, tried = [], 0
        while len(rows) < NUM_CONFIGS and tried < 3 * NUM_CONFIGS:
            source = random.Random(f"{family}/{tried}")
            fields, extra = draw(source)
            tried += 1
            try:
                row = record(class_name, fields, tried, extra)
            except Exception as error:  # a combination that transformers itself refuses
                print(family, tried, type(error).__name__, str(error)[:150], flush=True)
                continue
            if row is not None:
                rows.append(row)
        text = "\n".join(json.dumps(row, separators=(",", ":"), sort_keys=True) for row in rows) + "\n"
        data = gzip.compress(text.encode(), 9, mtime=0)
        (RANDOM / f"{family}.json.gz").write_bytes(data)
        print(f"{family}: {len(rows)} of {tried} configurations, {len(text)} bytes, {len(data)} packed", flush=True)


main(sys.argv[1:])
