/** Snippets of templates against the texts that transformers renders (record.py). */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { createTemplate } from "@nereid/server/chat/template/chat-template";

const read = (name: string) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const { variables, templates }: { variables: Record<string, unknown>; templates: string[] } = read("snippets.json");
const { texts, now }: { texts: (string | null)[]; now: string } = read("expected.json");

/** Syntax that the parser of `@huggingface/jinja` does not know; no published template uses it. */
const NOT_PARSED = new Set(["{{ (1,) }}", "{{ 1e5 if false else 3 }}", "{{ '100%%' % () }}"]);

async function rendered(text: string): Promise<string | null> {
  try {
    const template = createTemplate({ text, now: () => new Date(now) });
    return await template.render({ messages: [], addGenerationPrompt: false, ...variables });
  } catch (error) {
    assert.ok(error instanceof Error && "code" in error && error.code === "invalid_argument", String(error));
    return null;
  }
}

assert.equal(texts.length, templates.length);
for (const [i, template] of templates.entries()) {
  test(`renders ${JSON.stringify(template)}`, async () => {
    assert.equal(await rendered(template), NOT_PARSED.has(template) ? null : texts[i]);
  });
}
