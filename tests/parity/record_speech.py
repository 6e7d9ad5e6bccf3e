"""Records a tiny random Whisper with its files, and what transformers generates of a synthesized sound, for speech-server.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record_speech.py

A window is one second, so that the files stay small.
"""

import json
import shutil
from pathlib import Path

import torch
import transformers
from record import randomize, save
from record_whisper_features import sound
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers import models as kinds

torch.set_num_threads(1)
FOLDER = Path(__file__).parent / "speech"
SECONDS = 0.9
NUM_POSITIONS = 50
MAX_TOKENS = 24
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
TIMES = [f"<|{0.02 * i:.2f}|>" for i in range(NUM_POSITIONS + 1)]
TEXTS = ["the quick brown fox jumps over the lazy dog", "one two three four five"]


def make_tokenizer():
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=280,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[0], bos_token=SPECIAL[0],
                                                   pad_token=SPECIAL[0])
    wrapped.add_special_tokens({"additional_special_tokens": SPECIAL[1:]})
    wrapped.add_tokens(TIMES)
    return wrapped


def unprintable(tokenizer):
    """Bytes that are no text by themselves."""
    texts = [(one, tokenizer.decode([one])) for one in range(280)]
    return [one for one, text in texts if not (text.isascii() and text.isprintable())]


def build(tokenizer, seed):
    torch.manual_seed(seed)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer), num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_source_positions=NUM_POSITIONS,
        max_target_positions=MAX_TOKENS, decoder_start_token_id=ids["<|startoftranscript|>"], pad_token_id=ids["<|endoftext|>"],
        bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"])
    config._attn_implementation = "eager"
    model = transformers.WhisperForConditionalGeneration(config).float().eval()
    randomize(model, torch.bfloat16)
    # Timestamps are rare where they are not asked for.
    model.model.decoder.embed_tokens.weight.data[ids["<|notimestamps|>"] + 1:] *= 0.25
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=ids["<|startoftranscript|>"], eos_token_id=ids["<|endoftext|>"], pad_token_id=ids["<|endoftext|>"],
        no_timestamps_token_id=ids["<|notimestamps|>"], is_multilingual=True, max_initial_timestamp_index=20,
        lang_to_id={token: ids[token] for token in ("<|en|>", "<|de|>", "<|fr|>")},
        task_to_id={"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]},
        prev_sot_token_id=ids["<|startofprev|>"], suppress_tokens=[*unprintable(tokenizer), *[ids[token] for token in SPECIAL[5:10]]],
        begin_suppress_tokens=[40, ids["<|endoftext|>"]], max_length=MAX_TOKENS, return_timestamps=False)
    return model, ids


@torch.no_grad()
def generate(model, tokenizer, features, language, task, times, prompt=None):
    given = {} if prompt is None else dict(prompt_ids=torch.tensor(
        [tokenizer.convert_tokens_to_ids("<|startofprev|>"), *tokenizer.encode(" " + prompt, add_special_tokens=False)]))
    out = model.generate(features, language=language, task=task, return_timestamps=times, do_sample=False, num_beams=1,
                         **given)[0].tolist()
    start = tokenizer.convert_tokens_to_ids("<|notimestamps|>")
    special = {tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    own = [id for id in out if id not in special] if prompt is None else [
        id for id in out[len(given["prompt_ids"]) if out[0] == given["prompt_ids"][0] else 0:] if id not in special]
    text = tokenizer.decode([id for id in own if id < start or id > start + len(TIMES)], skip_special_tokens=True)
    return dict(language=language, task=task, times=times, prompt=prompt, ids=own, text=text, raw=out)


def main():
    tokenizer = make_tokenizer()
    samples = (sound(SECONDS) * 32767).round() / 32768
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    features = extractor(samples, sampling_rate=16000, return_tensors="pt").input_features
    for seed in range(40):
        model, ids = build(tokenizer, seed)
        cases = [generate(model, tokenizer, features, *one) for one in (
            ("en", "transcribe", False), ("en", "transcribe", True), ("de", "translate", False), ("fr", "translate", True))]
        cases.append(generate(model, tokenizer, features, "en", "transcribe", False, "one two"))
        if all(len(set(case["ids"])) > 3 and (case["times"] or max(case["ids"]) < ids["<|notimestamps|>"]) for case in cases):
            break
    else:
        raise SystemExit("no seed gives texts")
    language = model.detect_language(features)[0].item()
    shutil.rmtree(FOLDER, ignore_errors=True)
    save(model, FOLDER, "bfloat16", None)
    model.generation_config.save_pretrained(FOLDER)
    tokenizer.save_pretrained(FOLDER)
    extractor.save_pretrained(FOLDER)
    expected = dict(seconds=SECONDS, detected=tokenizer.convert_ids_to_tokens(language), cases=cases)
    (FOLDER / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    print(seed, sum(path.stat().st_size for path in FOLDER.iterdir()), "bytes", json.dumps(expected, indent=1))


if __name__ == "__main__":
    main()
