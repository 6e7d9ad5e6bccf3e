"""
Records how transformers renders `snippets.json`: expected.json holds the text of each, or null where it raises.
  python record.py    (needs transformers; the recorded release is in expected.json)
"""

import json
from datetime import datetime
from pathlib import Path

import transformers
import transformers.utils.chat_template_utils as chat_templates

FOLDER = Path(__file__).parent
NOW = datetime(2026, 11, 23, 9, 5, 7)


class FixedTime(datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def render(template, variables):
    try:
        return chat_templates._compile_jinja_template(template).render(**variables)
    except Exception:
        return None


def main():
    chat_templates.datetime = FixedTime
    snippets = json.loads((FOLDER / "snippets.json").read_text())
    texts = [render(template, snippets["variables"]) for template in snippets["templates"]]
    record = {"transformers": transformers.__version__, "now": NOW.isoformat(), "texts": texts}
    (FOLDER / "expected.json").write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n")


main()
