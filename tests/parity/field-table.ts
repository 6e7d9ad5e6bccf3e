/**
 * Writes docs/model-fields.md: for each recorded class the fields of config.json that are honoured, and those that change
 * nothing. field-table.test.ts compares; after an intended change, this file writes it again:
 * node --conditions=nereid-source --import tsx tests/parity/field-table.ts
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { ARCHITECTURES } from "../../server/src/models/config/architectures.ts";
import { honouredFields } from "../../server/src/models/config/parse-decoder-config.ts";

export const FIELDS_FILE: string = fileURLToPath(new URL("../../docs/model-fields.md", import.meta.url));

const INTRODUCTION = `# Fields of config.json

Each class honours the fields of its row and those that all share. Fields without effect are taken and ignored. Another field is
refused when the model loads, if its name says that it changes what is computed and its value switches something on: the error
names the file, the field and the value. The rules are in \`server/src/models/config/unknown-fields.ts\`; a test keeps this page.
Another changes each honoured field of each recorded model: the model is refused, gives other logits, or the field is in the list of
\`tests/parity/neutral-fields.ts\` with the reason.

The names of training, storage and generation have no effect in any class: dropout, losses, initialization, caches, token ids of
images, types, versions.
`;

/** By class, of all recorded models. */
function fieldsByClass(): ReadonlyMap<string, ReadonlySet<string>> {
  const byClass = new Map<string, Set<string>>();
  for (const folder of ["models/", "architectures/", "encoder-decoders/"]) {
    const at = new URL(folder, import.meta.url);
    for (const name of readdirSync(at).sort()) {
      const config = JSON.parse(readFileSync(new URL(`${name}/config.json`, at), "utf8"));
      const [className = ""] = config.architectures;
      const known = byClass.get(className) ?? new Set();
      const files = { config, generation: undefined, at: { config: name, generation: name } };
      for (const field of honouredFields(files)) known.add(field);
      byClass.set(className, known);
    }
  }
  return byClass;
}

const NEVER_SHOWN: readonly string[] = ["architectures", "quantization_config"];

export function fieldTable(): string {
  const byClass = fieldsByClass();
  const shared = [...(byClass.get("LlamaForCausalLM") ?? [])].filter((field) => !NEVER_SHOWN.includes(field)).sort();
  const list = (fields: readonly string[]): string => fields.map((field) => `\`${field}\``).join(", ");
  const rows = [...byClass]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([className, fields]) => {
      const own = [...fields].filter((field) => !shared.includes(field) && !NEVER_SHOWN.includes(field)).sort();
      const noEffect = [...(ARCHITECTURES.get(className)?.noEffect ?? [])].sort();
      return `| \`${className}\` | ${list(own)} | ${list(noEffect)} |`;
    });
  const head = `\`LlamaForCausalLM\`, and other classes where their files have them: ${list(shared)}.\n\n| class | honoured beside these | without effect |\n| --- | --- | --- |`;
  return `${INTRODUCTION}\n${head}\n${rows.join("\n")}\n`;
}

if (argv[1] === fileURLToPath(import.meta.url)) writeFileSync(FIELDS_FILE, fieldTable());
