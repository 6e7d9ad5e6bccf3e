"""Records tiny random encoders with their tokenizers, and the vectors, classes and scores of texts that sentence-transformers and
transformers compute with them, for text-encoders.test.ts.

Run by hand, for all models or for those named:

    python -m venv venv && venv/bin/pip install torch transformers sentence-transformers
    venv/bin/python tests/parity/record_text_encoders.py [name ...]
"""

import json
import shutil
import sys
from pathlib import Path

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors, trainers
from tokenizers import models as kinds
from tokenizers import normalizers

torch.set_num_threads(1)
FOLDER = Path(__file__).parent / "text-encoders"
TEXTS = ["the quick brown fox", "jumps", "over the lazy dog and the quick one, again and again and once more over the dog",
         "A fox!", "dogs are lazy; foxes are quick"]
PAIRS = [("quick fox", "the quick brown fox"), ("quick fox", "lazy dogs"), ("dog", "over the lazy dog, again and again"),
         ("A", "b")]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40)


def wordpiece():
    tokenizer = Tokenizer(kinds.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=BERT_SPECIAL))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(one, tokenizer.token_to_id(one)) for one in ("[CLS]", "[SEP]")])
    return tokenizer, dict(unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                           model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def byte_level(frame):
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    ids = {one: tokenizer.token_to_id(one) for one in SPECIAL}
    if frame == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=False,
                                                                add_prefix_space=False)
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=frame, pair=frame + " $B:1 </s>:1", special_tokens=[(one, ids[one]) for one in SPECIAL])
    return tokenizer, dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", cls_token="<s>",
                           sep_token="</s>")


def unigram():
    tokenizer = Tokenizer(kinds.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=90, special_tokens=SPECIAL, unk_token="<unk>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(one, tokenizer.token_to_id(one)) for one in ("<s>", "</s>")])
    return tokenizer, dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", cls_token="<s>",
                           sep_token="</s>")


ROBERTA = dict(SIZES, vocab_size=300, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0,
               eos_token_id=2)
MODERN = dict(SIZES, vocab_size=300, max_position_embeddings=64, pad_token_id=1, bos_token_id=0, eos_token_id=2,
              cls_token_id=0, sep_token_id=2, local_attention=6)
DEBERTA = dict(SIZES, vocab_size=90, max_position_embeddings=64, relative_attention=True, share_att_key=True,
               position_buckets=8, norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"], position_biased_input=False,
               type_vocab_size=0, pad_token_id=0)
TEMPLATE = "<s>:0 $A:0 </s>:0"
# name: (class, fields, tokenizer, pooling of sentence-transformers or None, widths of dense layers behind it)
SPECS = {
    "bert": ("BertModel", dict(SIZES, vocab_size=90, max_position_embeddings=64), wordpiece, "mean", []),
    "bert-2": ("BertModel", dict(SIZES, vocab_size=90, max_position_embeddings=40, hidden_act="gelu_new",
                                 num_attention_heads=2), wordpiece, "max", []),
    "bert-classes": ("BertForSequenceClassification", dict(SIZES, vocab_size=90, max_position_embeddings=64, num_labels=3),
                     wordpiece, None, []),
    "roberta": ("RobertaModel", ROBERTA, lambda: byte_level("roberta"), "cls", []),
    "xlm-roberta-rerank": ("XLMRobertaForSequenceClassification", dict(ROBERTA, vocab_size=90, num_labels=1), unigram, None,
                           []),
    "modernbert": ("ModernBertModel", MODERN, lambda: byte_level(TEMPLATE), "mean", []),
    "modernbert-classes": ("ModernBertForSequenceClassification",
                           dict(MODERN, num_labels=4, classifier_pooling="mean", norm_bias=True, attention_bias=True,
                                mlp_bias=True, classifier_bias=True), lambda: byte_level(TEMPLATE), None, []),
    "nomic-bert": ("NomicBertModel", dict(SIZES, vocab_size=90, max_position_embeddings=64), wordpiece, "mean", []),
    "nomic-bert-2": ("NomicBertModel", dict(SIZES, vocab_size=90, max_position_embeddings=40, num_attention_heads=2),
                     wordpiece, "cls", []),
    "deberta-v3": ("DebertaV2Model", DEBERTA, wordpiece, "mean", []),
    "deberta-v3-classes": ("DebertaV2ForSequenceClassification",
                           dict(DEBERTA, num_attention_heads=2, position_buckets=-1, max_relative_positions=5, norm_rel_ebd="none",
                                type_vocab_size=2, position_biased_input=True, num_labels=3), wordpiece, None, []),
    "embedding-gemma": ("Gemma3TextModel", dict(SIZES, vocab_size=300, num_key_value_heads=2, head_dim=8,
                                                max_position_embeddings=64, sliding_window=6, query_pre_attn_scalar=8,
                                                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                                                use_bidirectional_attention=True, pad_token_id=1, bos_token_id=0,
                                                eos_token_id=2), lambda: byte_level(TEMPLATE), "mean", [48, 16]),
    "qwen3-embedding": ("Qwen3Model", dict(SIZES, vocab_size=300, num_key_value_heads=2, head_dim=8, pad_token_id=1,
                                           max_position_embeddings=64, bos_token_id=0, eos_token_id=2),
                        lambda: byte_level("$A:0 </s>:0"), "lasttoken", []),
}


NOMIC = dict(hidden_size="n_embd", intermediate_size="n_inner", num_hidden_layers="n_layer", num_attention_heads="n_head",
             max_position_embeddings="n_positions", layer_norm_eps="layer_norm_epsilon")


def use_own_names(path):
    """Gives config.json of NomicBERT the fields of published files."""
    config = json.loads(path.read_text())
    own = {NOMIC[key]: config[key] for key in NOMIC}
    own.update(architectures=["NomicBertModel"], model_type="nomic_bert", activation_function="swiglu", causal=False,
               vocab_size=config["vocab_size"], type_vocab_size=2, rotary_emb_base=config["rope_parameters"]["rope_theta"],
               rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None, prenorm=False,
               qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False, use_rms_norm=False, parallel_block=False,
               scale_attn_weights=True, rotary_scaling_factor=None)
    path.write_text(json.dumps(own, indent=2) + "\n")


@torch.no_grad()
def record(name):
    class_name, fields, make_tokenizer, pooling, widths = SPECS[name]
    torch.manual_seed(sum(map(ord, name)))
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**fields)).float().eval()
    for parameter in model.parameters():
        noise = torch.randn_like(parameter)
        if parameter.dim() == 1:
            parameter += 0.2 * noise
        else:
            parameter.copy_(noise / parameter.shape[-1] ** 0.5)
        parameter.copy_(parameter.bfloat16().float())
    model.bfloat16().save_pretrained(folder)
    tokenizer, tokens = make_tokenizer()
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **tokens)
    wrapped.save_pretrained(folder)
    expected = dict(texts=TEXTS)
    if pooling is None:
        loaded = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        run = lambda *texts: loaded(**wrapped(*texts, return_tensors="pt")).logits[0].tolist()
        expected["vectors"] = [run(text) for text in TEXTS]
        expected["pairs"] = PAIRS
        expected["scores"] = [run(*pair) for pair in PAIRS]
    else:
        start = models.Transformer(str(folder), model_args=dict(dtype=torch.float32, attn_implementation="eager"))
        modules = [start, models.Pooling(start.get_word_embedding_dimension(), pooling_mode=pooling)]
        size = SIZES["hidden_size"]
        for width in widths:
            modules.append(models.Dense(size, width, bias=width == widths[-1], activation_function=torch.nn.Identity()
                                        if width == widths[0] else torch.nn.Tanh()))
            size = width
        whole = SentenceTransformer(modules=[*modules, models.Normalize()], device="cpu")
        expected["vectors"] = whole.encode(TEXTS, batch_size=1, show_progress_bar=False).tolist()
        weights = (folder / "model.safetensors").read_bytes()
        whole.save_pretrained(str(folder))
        # As it was before, in bfloat16.
        for path in folder.glob("*.safetensors"):
            path.unlink()
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "README.md").unlink(missing_ok=True)
    if name == "nomic-bert-2":
        use_own_names(folder / "config.json")
    expected = {key: value if key in ("texts", "pairs") else [[round(x, 6) for x in row] for row in value]
                for key, value in expected.items()}
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{name}: {size} bytes, {expected['vectors'][0][:3]}", flush=True)


if __name__ == "__main__":
    for one in sys.argv[1:] or SPECS:
        record(one)
