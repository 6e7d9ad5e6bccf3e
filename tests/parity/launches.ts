/**
 * Lists what a pass of each recorded model launches on a GPU, by the names of its kernels. launches.test.ts compares the list
 * with launches.txt; after an intended change, this file writes it again:
 * node --conditions=nereid-source --import tsx tests/parity/launches.ts
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import type { CudaBatch, CudaLoraBatch } from "../../server/src/models/cuda/pass.ts";
import { record } from "../../server/src/models/cuda/record-pass.test-support.ts";

const MODELS = new URL("models/", import.meta.url);
export const LAUNCHES_FILE: string = fileURLToPath(new URL("launches.txt", import.meta.url));

/** Large enough for the tiles of every kernel. */
const SIZES = {
  vocab_size: 512,
  hidden_size: 256,
  intermediate_size: 512,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 32,
};
const LORA: CudaLoraBatch = { numTiles: 1, rowsPerTile: 8, adapters: 2n ** 46n, tileRows: 2n ** 47n, maxRank: 16 };

const decode = (numTokens: number): Partial<CudaBatch> => ({
  numDecoding: numTokens,
  numSequences: numTokens,
  numLogitRows: numTokens,
  keepsAllRows: true,
});

/** The number of tokens, how they form a batch, and the form of the matrices. */
type Pass = readonly [numTokens: number, batch: Partial<CudaBatch>, options: Parameters<typeof record>[3]];

const PASSES: Readonly<Record<string, Pass>> = {
  "decode of 2 rows, bf16": [2, decode(2), {}],
  "decode of 32 rows, bf16": [32, decode(32), {}],
  "decode of 32 rows, bf16, deterministic": [32, decode(32), { isDeterministic: true }],
  "decode of 32 rows, bf16, with adapters": [32, { ...decode(32), lora: LORA }, {}],
  "decode of 32 rows, FP8": [32, decode(32), { hasCodes: true }],
  "decode of 32 rows, INT4": [32, decode(32), { hasInt4: true }],
  "prompt of 40 tokens, bf16": [40, {}, {}],
  "prompt of 40 tokens without logits, bf16": [40, { numLogitRows: 0 }, {}],
};

/** With the sizes of all, where the model allows it. */
function configOf(model: string): Readonly<Record<string, unknown>> {
  const config = JSON.parse(readFileSync(new URL(`${model}/config.json`, MODELS), "utf8"));
  // LongRoPE lists a factor for each pair of a head.
  return JSON.stringify(config).includes("long_factor") ? config : { ...config, ...SIZES };
}

/** Repetitions of a run of names as one run: "a (b c) x 3". */
function foldRepeats(names: readonly string[]): string {
  for (let at = 0; at < names.length; at++) {
    for (let length = Math.floor((names.length - at) / 2); length > 0; length--) {
      const run = names.slice(at, at + length);
      let count = 1;
      while (run.every((name, i) => name === names[at + count * length + i])) count++;
      if (count === 1) continue;
      const folded = `(${run.join(" ")}) x ${count}`;
      return [...names.slice(0, at), folded, foldRepeats(names.slice(at + count * length))].join(" ").trim();
    }
  }
  return names.join(" ");
}

/** Models with the same launches share an entry. */
export function listLaunches(): string {
  const models = readdirSync(MODELS).sort();
  return Object.entries(PASSES)
    .map(([title, [numTokens, batch, options]]) => {
      const byLaunches = new Map<string, string[]>();
      for (const model of models) {
        const { kernels } = record(configOf(model), numTokens, batch, { arch: "sm_90a", ...options });
        const launches = foldRepeats(kernels);
        byLaunches.set(launches, [...(byLaunches.get(launches) ?? []), model]);
      }
      return `# ${title}\n\n${[...byLaunches].map(([launches, names]) => `${names.join(", ")}:\n  ${launches}\n`).join("\n")}`;
    })
    .join("\n");
}

if (argv[1] === fileURLToPath(import.meta.url)) writeFileSync(LAUNCHES_FILE, listLaunches());
