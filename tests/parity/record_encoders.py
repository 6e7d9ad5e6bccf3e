"""Records tiny random encoders and what Hugging Face transformers computes with them, for encoders.test.ts.

Run by hand, for all models or for those named:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record_encoders.py [name ...]

Each folder of encoders/ gets config.json and model.safetensors as transformers saves them, and expected.json with cases:
inputs and outputs by name, as shape and flat values. Weights are rounded to what the files hold before anything is
computed, and all is computed in f32.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors import safe_open

transformers.utils.logging.disable_progress_bar()
ENCODERS = Path(__file__).parent / "encoders"
BERT = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=12, type_vocab_size=2)
TEXT = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=9, projection_dim=8, bos_token_id=48, eos_token_id=49, pad_token_id=1)
VISION = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, image_size=12,
              patch_size=4, projection_dim=8)
# CLIP's first configurations say this for any vocabulary: the end is then the largest id.
LEGACY_TEXT = dict(TEXT, eos_token_id=2, bos_token_id=0, hidden_act="quick_gelu")

# name: (class, fields of the config, dtype of the files)
SPECS = {
    "minilm": ("BertModel", BERT, "float32"),
    "bert-masked-lm": ("BertForMaskedLM", dict(BERT, hidden_act="gelu_new", layer_norm_eps=1e-5), "bfloat16"),
    "clip": ("CLIPModel", dict(text_config=LEGACY_TEXT, vision_config=dict(VISION, hidden_act="quick_gelu"),
                               projection_dim=8), "float16"),
    "clip-text": ("CLIPTextModelWithProjection", dict(TEXT, hidden_act="gelu"), "float32"),
    "clip-text-plain": ("CLIPTextModel", dict(TEXT, hidden_act="quick_gelu"), "float32"),
    "clip-vision": ("CLIPVisionModelWithProjection", dict(VISION, hidden_act="gelu"), "float32"),
}
IDS = [[48, 7, 3, 22, 49, 1, 1], [48, 9, 49, 1, 1, 1, 1]]
MASK = [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0]]


def build(name):
    class_name, fields, dtype = SPECS[name]
    torch.manual_seed(sum(map(ord, name)))
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # fresh weights are so small that a wrong graph would hardly differ
            parameter.copy_((torch.randn_like(parameter) * 0.3 + (parameter.dim() == 1) * 0.5).to(getattr(torch, dtype)))
    folder = ENCODERS / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    loaded = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return loaded, folder


def array(tensor):
    flat = tensor.flatten().tolist()
    return dict(shape=list(tensor.shape), data=[round(x, 7) if isinstance(x, float) else x for x in flat])


def case(part, inputs, outputs):
    return dict(part=part, inputs={name: array(value) for name, value in inputs.items()},
                outputs={name: array(value) for name, value in outputs.items()})


def bert_cases(model):
    bert = getattr(model, "bert", model)
    ids = torch.tensor(IDS) % BERT["vocab_size"]
    inputs = dict(input_ids=ids, attention_mask=torch.tensor(MASK), token_type_ids=(ids > 20).long())
    states = bert(**inputs).last_hidden_state
    weights = inputs["attention_mask"].unsqueeze(-1).float()
    mean = (states * weights).sum(1) / weights.sum(1)
    embedding = torch.nn.functional.normalize(mean)
    return [case("text", inputs, dict(last_hidden_state=states, sentence_embedding=embedding))]


def text_cases(text_model, projection):
    ids = torch.tensor(IDS)
    cases = []
    for mask in (None, torch.tensor(MASK)):
        inputs = dict(input_ids=ids) | ({} if mask is None else dict(attention_mask=mask))
        out = text_model(**inputs)
        pooled = dict(pooler_output=out.pooler_output) if projection is None \
            else dict(text_embeds=projection(out.pooler_output))
        cases.append(case("text", inputs, pooled | dict(last_hidden_state=out.last_hidden_state)))
    return cases


def vision_cases(vision_model, projection):
    inputs = dict(pixel_values=torch.randn(2, 3, VISION["image_size"], VISION["image_size"]))
    out = vision_model(**inputs)
    outputs = dict(image_embeds=projection(out.pooler_output), last_hidden_state=out.last_hidden_state)
    return [case("vision", inputs, outputs)]


@torch.no_grad()
def record(name):
    model, folder = build(name)
    if "bert" in SPECS[name][0].lower():
        cases = bert_cases(model)
    else:
        cases = []
        if hasattr(model, "text_model") or name == "clip-text-plain":
            text_model = getattr(model, "text_model", model)
            cases += text_cases(text_model, getattr(model, "text_projection", None))
        if hasattr(model, "vision_model"):
            cases += vision_cases(model.vision_model, model.visual_projection)
    (folder / "expected.json").write_text(json.dumps(cases))
    names = list(safe_open(folder / "model.safetensors", "pt").keys())
    print(name, {case["part"]: list(case["outputs"]) for case in cases}, sorted(names)[:2], len(names))


for name in sys.argv[1:] or SPECS:
    record(name)
