"""Records small tokenizers as GGUF files and what the libraries that trained them make of texts, for
gguf-tokenizer.test.ts.

Run by hand:

    python -m venv venv && venv/bin/pip install gguf sentencepiece tokenizers
    venv/bin/python tests/parity/record_tokenizers.py

tokenizers/ gets <name>.gguf with metadata alone, and expected.json with the ids of each text by name.
"""

import json
import tempfile
from pathlib import Path

import gguf
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "tokenizers"
TEXTS = [
    "Hello world", " leading and trailing ", "", "It's 12345 o'clock, isn't IT? I'LL say 'TWAS 7 times.",
    "tabs\tand\nnew\r\n\r\nlines   and    runs of blanks   ", "naïve café ÄÖÜ ß ﬁ ½ 東京 한국어 🙂👍🏽 e\u0301",
    "camelCaseWORDS and snake_case; paths/like/this/", "x=1+2*3/(4-5)%6 != <tag attr=\"v\">", "\u00a0nbsp\u2003em",
    "The engine decides what a step computes, and a device computes it.", "<s>not a token</s>", "ＦＵＬＬ ｗｉｄｔｈ ١٢٣",
]
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*")
# As the models' own tokenizer.json have them: pattern, digits one by one, merges ignored for whole words, NFC.
BYTE_LEVEL = {
    "gpt-2": (None, False, False, False),
    "smollm": (None, True, False, False),
    "llama-bpe": (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST, False, True, False),
    "qwen2": (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST, False, False, True),
    "tekken": (CASED + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+", False, True, False),
}


def corpus():
    return [path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))] + TEXTS


def write(name, model, tokens, types, **fields):
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for key, value in fields.items():
        getattr(writer, f"add_{key}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def byte_level(name):
    pattern, has_digits, ignores_merges, is_nfc = BYTE_LEVEL[name]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignores_merges))
    parts = [pre_tokenizers.Digits(individual_digits=True)] if has_digits else []
    if pattern is not None:
        parts.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = decoders.ByteLevel()
    if is_nfc:
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    saved = json.loads(tokenizer.to_str())
    tokens = sorted(saved["model"]["vocab"], key=saved["model"]["vocab"].get)
    types = [3 if token == "<|end|>" else 1 for token in tokens]
    merges = [" ".join(merge) for merge in saved["model"]["merges"]]
    write(name, "gpt2", tokens, types, tokenizer_pre=name, token_merges=merges, add_bos_token=False,
          bos_token_id=0, eos_token_id=0)
    return {text: tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS}


def scored():
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "corpus.txt"
        text.write_text("\n".join(corpus()))
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=f"{folder}/spm", vocab_size=700, model_type="bpe", byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.99,
            user_defined_symbols=["<tool>"], minloglevel=2)
        model = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/spm.model")
    size = model.get_piece_size()
    kinds = [2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i)
             else 4 if model.id_to_piece(i) == "<tool>" else 1 for i in range(size)]
    write("llama", "llama", [model.id_to_piece(i) for i in range(size)], kinds,
          token_scores=[model.get_score(i) for i in range(size)], bos_token_id=1, eos_token_id=2, unk_token_id=0,
          add_bos_token=True)
    # A text that holds the name of a control token is not cut there by this library.
    return {text: model.encode(text) for text in TEXTS if text not in ("", "<s>not a token</s>")}


HERE.mkdir(exist_ok=True)
expected = {name: byte_level(name) for name in BYTE_LEVEL} | {"llama": scored()}
(HERE / "expected.json").write_text(json.dumps(expected, separators=(",", ":"), ensure_ascii=False) + "\n")
for path in sorted(HERE.iterdir()):
    print(path.name, path.stat().st_size)
