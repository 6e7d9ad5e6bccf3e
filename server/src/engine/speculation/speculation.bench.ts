/**
 * Tokens per second of CPU time for one request of nereid-tiny, with and without drafts. One text repeats itself, one
 * does not.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "../cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { ModelDrafter } from "./model-drafter.ts";

const FOLDER = fileURLToPath(new URL("../../../../examples/nereid-tiny/", import.meta.url));
const MODEL = { modelDir: `${FOLDER}language_model/`, blockSize: 16, numBlocks: 256, numThreads: 1 };
const VOCAB = 6144;
const MAX_TOKENS = 128;
const ROUNDS = 5;
const recorded = JSON.parse(readFileSync(`${FOLDER}golden_text.json`, "utf8")) as readonly {
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
}[];
const [first] = recorded;
if (first === undefined) throw new Error("golden_text.json holds no prompt");
/** The model tells stories that never repeat themselves: held to the words of one sentence it does. */
const sentence = first.output_ids.slice(10, 22);
const logitBias = new Float32Array(VOCAB).fill(-100);
for (const id of sentence) logitBias[id] = 0;
const TEXTS: Readonly<Record<string, Partial<GenerateRequest>>> = {
  "repeats itself": { promptTokens: Int32Array.from([...sentence, ...sentence]), logitBias },
  "does not": { promptTokens: Int32Array.from(first.input_ids) },
};
const KINDS = [
  { name: "no drafts", maxDraftTokens: 0, ngramSize: 0, isDrafted: false },
  { name: "n-gram look-up, 16 tokens", maxDraftTokens: 16, ngramSize: 3, isDrafted: false },
  { name: "draft model in q4_0, 4 tokens", maxDraftTokens: 4, ngramSize: 0, isDrafted: true },
];

for (const isDeterministic of [false, true]) {
  for (const [kind, asked] of Object.entries(TEXTS)) {
    for (const { name, isDrafted, ...speculation } of KINDS) {
      const runner = await createDecoderRunner({ ...MODEL, isDeterministic });
      const small = isDrafted ? await createDecoderRunner({ ...MODEL, weightType: "q4_0" }) : undefined;
      const drafter = small && new ModelDrafter(small, speculation, DEFAULT_ENGINE_CONFIG.maxBatchTokens);
      const config = { ...DEFAULT_ENGINE_CONFIG, speculation };
      const engine = new LlmEngine(runner, config, undefined, { drafter });
      let best = 0;
      for (let round = 0; round < ROUNDS; round++) best = Math.max(best, await tokensPerSecond(engine, asked));
      const { draftTokens, acceptedDraftTokens } = engine.stats();
      const mode = isDeterministic ? "deterministic" : "default";
      const share = draftTokens === 0 ? "" : `, ${((100 * acceptedDraftTokens) / draftTokens).toFixed(0)} % right`;
      console.log(`${mode}, text ${kind}, ${name}: ${best.toFixed(0)} tok/s${share}`);
      await engine.close();
    }
  }
}

async function tokensPerSecond(engine: LlmEngine, asked: Partial<GenerateRequest>): Promise<number> {
  let numTokens = 0;
  let start = 0;
  for await (const { tokenIds } of engine.generate({ ...NEUTRAL_REQUEST, ...asked, maxTokens: MAX_TOKENS })) {
    if (start === 0) start = processorMs();
    else numTokens += tokenIds.length;
  }
  return (1000 * numTokens) / (processorMs() - start);
}

/** Neighbours do not count. */
function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
