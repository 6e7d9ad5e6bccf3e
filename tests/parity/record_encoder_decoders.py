"""Records tiny models with an encoder and a decoder, each in two configurations, for encoder-decoders.test.ts.

Run by hand, for all models or for those named:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record_encoder_decoders.py [name ...]

Each folder of encoder-decoders/ gets what record.py writes; expected.json also has the encoder's input: ids, or frames of sound.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from record import randomize, save
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as kinds

torch.set_num_threads(1)
FOLDER = Path(__file__).parent / "encoder-decoders"
NUM_ROWS = 6
MIN_MARGIN = 0.005
VOCABULARY = 72
INPUT_LENGTH = 21

T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_heads=4, decoder_start_token_id=0,
          relative_attention_num_buckets=8, relative_attention_max_distance=12)
SIDES = dict(encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40,
             decoder_ffn_dim=40, d_model=32, vocab_size=VOCABULARY)
BART = dict(SIDES, max_position_embeddings=64, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
            forced_eos_token_id=None)
OTHER_SIDES = dict(encoder_layers=3, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=4,
                   encoder_ffn_dim=24, decoder_ffn_dim=56)
WHISPER = dict(SIDES, num_mel_bins=8, max_source_positions=12, max_target_positions=40, pad_token_id=1, bos_token_id=0,
               eos_token_id=2, decoder_start_token_id=3, begin_suppress_tokens=None)

# name: (class, fields of the config, prompt of the decoder behind its start)
SPECS = {
    "t5": ("T5ForConditionalGeneration", dict(T5), []),
    "t5-flan": ("T5ForConditionalGeneration", dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                                                   num_decoder_layers=3, d_kv=12, num_heads=3), [5, 9]),
    "mt5": ("MT5ForConditionalGeneration", dict(T5, num_decoder_layers=1, d_kv=12), []),
    "mt5-2": ("MT5ForConditionalGeneration", dict(T5, feed_forward_proj="relu", relative_attention_num_buckets=16,
                                                  relative_attention_max_distance=32), [7]),
    "umt5": ("UMT5ForConditionalGeneration", dict(T5, tie_word_embeddings=False), []),
    "umt5-2": ("UMT5ForConditionalGeneration", dict(T5, feed_forward_proj="gated-silu", num_decoder_layers=1), [4, 4, 8]),
    "bart": ("BartForConditionalGeneration", dict(BART), [0]),
    "bart-2": ("BartForConditionalGeneration", dict(BART, **OTHER_SIDES, scale_embedding=True,
                                                    activation_function="relu"), []),
    "mbart": ("MBartForConditionalGeneration", dict(BART, scale_embedding=True), [11]),
    "mbart-2": ("MBartForConditionalGeneration", dict(BART, **OTHER_SIDES, activation_function="gelu_new"), []),
    "m2m100": ("M2M100ForConditionalGeneration", dict(BART), [9]),
    "m2m100-2": ("M2M100ForConditionalGeneration", dict(BART, **OTHER_SIDES, scale_embedding=False,
                                                        activation_function="gelu"), []),
    "whisper": ("WhisperForConditionalGeneration", dict(WHISPER), [6, 7]),
    "whisper-2": ("WhisperForConditionalGeneration", dict(WHISPER, **OTHER_SIDES, num_mel_bins=5, max_source_positions=9,
                                                          activation_function="relu"), []),
}


WITH_TEXT = ["t5-flan"]
TEXTS = ["translate English to German: the house is small", "summarize: the quick brown fox jumps over the lazy dog",
         "Das Haus ist klein", "das ist gut", "is this sentence acceptable"]

# With an output table of their own, and fields as releases wrote them that tied by the field.
UNTIED = ["t5-flan", "mt5"]


def build(name, seed):
    class_name, fields, prompt = SPECS[name]
    torch.manual_seed(seed)
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**fields)
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    if name in UNTIED:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    randomize(model, torch.bfloat16)
    for key, buffer in model.named_buffers():
        if key.endswith("final_logits_bias"):
            buffer.copy_((0.2 * torch.randn_like(buffer)).bfloat16().float())
    if class_name.startswith("Whisper"):
        return model, torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions).bfloat16().float()
    return model, torch.randint(3, VOCABULARY, (1, INPUT_LENGTH))


@torch.no_grad()
def decode(model, given, start):
    """Greedy tokens, each from a whole forward pass; the logits they were taken from."""
    tokens, rows = list(start), []
    name = "input_ids" if given.dim() == 2 else "input_features"
    for _ in range(NUM_ROWS):
        out = model(**{name: given}, decoder_input_ids=torch.tensor([tokens]), use_cache=False)
        rows.append(out.logits[0, -1])
        tokens.append(int(rows[-1].argmax()))
    return tokens[len(start):], torch.stack(rows)


def make_tokenizer():
    """Its vocabulary is the models'."""
    tokenizer = Tokenizer(kinds.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=VOCABULARY, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>",
                                                unk_token="<unk>")


def generate(model, tokenizer):
    """The first text, and the model's answer to it."""
    ids = tokenizer(TEXTS[0], return_tensors="pt").input_ids
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=model.config.decoder_start_token_id, eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id)
    out = model.generate(ids, max_new_tokens=12, min_new_tokens=1, do_sample=False, use_cache=False)[0, 1:].tolist()
    return dict(input=TEXTS[0], ids=ids[0].tolist(), generated=out,
                output=tokenizer.decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def untie(directory, table):
    path = directory / "model.safetensors"
    save_file(dict(load_file(path), **{"lm_head.weight": table.bfloat16().contiguous()}), path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config.pop("scale_decoder_outputs", None)
    config["tie_word_embeddings"] = False
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def record(name):
    class_name, fields, prompt = SPECS[name]
    # Training breaks ties at random: one tokenizer is kept.
    tokenizer = make_tokenizer() if name in WITH_TEXT else None
    for seed in range(300):
        model, given = build(name, seed)
        start = [model.config.decoder_start_token_id, *prompt]
        greedy, logits = decode(model, given, start)
        top = logits.topk(2).values
        text = generate(model, tokenizer) if tokenizer is not None else None
        if text is not None and len(set(text["generated"])) < 5:
            continue
        if (top[:, 0] - top[:, 1]).min() >= MIN_MARGIN and len(set(greedy)) > 1:
            break
    else:
        sys.exit(f"{name}: no seed gives clear greedy choices")
    directory = FOLDER / name
    table = model.lm_head.weight if name in UNTIED else None
    if table is not None:
        model.lm_head.weight = model.shared.weight
    save(model, directory, "bfloat16", None)
    if table is not None:
        untie(directory, table)
        model.lm_head.weight = table
    own = {"encoder": given[0].tolist()} if given.dim() == 2 else {
        "frames": [[round(x, 6) for x in row] for row in given[0].T.tolist()]}
    if tokenizer is not None:
        tokenizer.save_pretrained(directory)
        own["text"] = text
    expected = dict(own, prompt=start, greedy=greedy, logits=[[round(x, 5) for x in row] for row in logits.tolist()])
    (directory / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{name}: seed {seed}, {size} bytes, logits up to {logits.abs().max():.2f}", flush=True)


if __name__ == "__main__":
    for one in sys.argv[1:] or SPECS:
        record(one)
