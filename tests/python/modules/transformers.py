"""Stands in for transformers where only a tokenizer is used: the same tokens, by the library below it."""

import json
import os

from tokenizers import Tokenizer


class AutoTokenizer:
    @staticmethod
    def from_pretrained(folder, **_options):
        return _Tokenizer(folder)


class _Tokenizer:
    def __init__(self, folder):
        self._tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        token = config.get("eos_token")
        self.eos_token = token["content"] if isinstance(token, dict) else token
        self.pad_token = None
        self.eos_token_id = self._tokenizer.token_to_id(self.eos_token)

    def encode(self, text, add_special_tokens=True):
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids, skip_special_tokens=False):
        return self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=skip_special_tokens)
