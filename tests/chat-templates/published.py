"""Renders `conversations.json` with each *.jinja file of a folder, as transformers does; prints JSON: file -> conversation -> text or null."""

import json
import sys
from datetime import datetime
from pathlib import Path

import transformers
import transformers.utils.chat_template_utils as chat_templates


class FixedTime(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime(2026, 11, 23, 9, 5, 7)


def render(template, conversation):
    variables = {"tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>", **conversation}
    del variables["name"]
    try:
        return template.render(**variables)
    except Exception:
        return None


def main(folder):
    chat_templates.datetime = FixedTime
    conversations = json.loads((Path(__file__).parent / "conversations.json").read_text())
    texts = {}
    for path in sorted(Path(folder).glob("*.jinja")):
        template = chat_templates._compile_jinja_template(path.read_text())
        texts[path.name] = {one["name"]: render(template, one) for one in conversations}
    json.dump({"transformers": transformers.__version__, "texts": texts}, sys.stdout)


main(sys.argv[1])
