/**
 * Compares our rendering of published chat templates with transformers' and prints published.md.
 *   node --conditions=nereid-source --import tsx tests/chat-templates/published.ts FOLDER PYTHON
 * FOLDER holds *.jinja files, for instance those of llama.cpp's models/templates; PYTHON has transformers.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { createTemplate } from "@nereid/server/chat/template/chat-template";

interface Conversation {
  readonly name: string;
  readonly add_generation_prompt: boolean;
  readonly messages: never[];
}

interface Reference {
  readonly transformers: string;
  readonly texts: Readonly<Record<string, Readonly<Record<string, string | null>>>>;
}

const [folder = ".", python = "python3"] = process.argv.slice(2);
const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const conversations: readonly Conversation[] = JSON.parse(readFileSync(here("conversations.json"), "utf8"));
const output = execFileSync(python, [here("published.py"), folder], {
  maxBuffer: 2 ** 30,
  stdio: ["ignore", "pipe", "ignore"],
});
const reference: Reference = JSON.parse(output.toString());
const NOW = new Date(2026, 10, 23, 9, 5, 7);

async function ours(
  text: string,
  { name: _, add_generation_prompt, ...variables }: Conversation,
): Promise<string | null> {
  try {
    const template = createTemplate({ text, bosToken: "<s>", eosToken: "</s>", now: () => NOW });
    return await template.render({ addGenerationPrompt: add_generation_prompt, ...variables });
  } catch {
    return null;
  }
}

async function row(file: string): Promise<{ readonly text: string; readonly equal: number }> {
  const text = readFileSync(join(folder, file), "utf8");
  const differing: string[] = [];
  for (const conversation of conversations) {
    const expected = reference.texts[file]?.[conversation.name] ?? null;
    if ((await ours(text, conversation)) !== expected) differing.push(conversation.name);
  }
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
  const equal = conversations.length - differing.length;
  return { text: `| ${file} | \`${hash}\` | ${equal} | ${differing.join(", ")} |`, equal };
}

const rows = await Promise.all(Object.keys(reference.texts).map(row));
const equal = rows.reduce((sum, one) => sum + one.equal, 0);
const total = rows.length * conversations.length;
process.stdout.write(`# Published chat templates

Written by \`tests/chat-templates/published.ts\`. ${rows.length} templates and ${conversations.length} conversations: the text, or the
refusal, equals that of transformers ${reference.transformers} in ${equal} of ${total} cases. The templates belong to their makers and are not part of this repository.

| template | SHA-256 | equal | conversations that differ |
| --- | --- | --- | --- |
${rows.map(({ text }) => text).join("\n")}
`);
