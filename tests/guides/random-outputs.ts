/**
 * Guided outputs without a model: each token is chosen at random among those that the mask allows. Now and then some tokens are taken
 * back, as drafts are, and the mask must be the one from before. A finished output must follow its schema.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { GrammarGuides } from "../../server/src/engine/guide/grammar-guides.ts";
import type { GuideSession } from "../../server/src/engine/guide/guides.ts";
import type { Tokenizer } from "../../server/src/formats/tokenizer/tokenizer.ts";
import { loadTokenizer } from "../../server/src/formats/tokenizer/tokenizer-files.ts";
import { createRandom, type Random } from "../support/random.ts";
import { faultOf, type Schema } from "../tool-calls/check-value.ts";
import { randomTools } from "../tool-calls/random-tools.ts";

const MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));
const VOCABULARY = 6144;
const END = 2;
/** Longer ones are cut, as by a limit of tokens. */
const MAX_TOKENS = 600;
const MAX_DRAFTS = 4;
/** One step in as many begins with drafts that are taken back. */
const DRAFT_STEPS = 16;

export interface OutputCounts {
  /** Ended by themselves, each checked. */
  readonly finished: number;
  readonly cut: number;
  readonly tokens: number;
  readonly takenBack: number;
}

export class RandomOutputs {
  readonly #guides = new GrammarGuides({ tokenizerDir: MODEL, vocabSize: VOCABULARY });
  readonly #tokenizer: Tokenizer;
  readonly #schemas: readonly Schema[];

  private constructor(tokenizer: Tokenizer, schemas: readonly Schema[]) {
    this.#tokenizer = tokenizer;
    this.#schemas = schemas;
  }

  static async create(seed: number, numSchemas: number): Promise<RandomOutputs> {
    const random = createRandom(seed);
    const schemas = Array.from({ length: numSchemas }, () => {
      const [tool] = randomTools(random);
      return tool?.function.parameters as Schema;
    });
    return new RandomOutputs(await loadTokenizer(MODEL), schemas);
  }

  close(): Promise<void> {
    return this.#guides.close();
  }

  /** One output of each schema. @throws AssertionError for one that does not follow it */
  async run(seed: number): Promise<OutputCounts> {
    const counts = { finished: 0, cut: 0, tokens: 0, takenBack: 0 };
    for (const [i, schema] of this.#schemas.entries()) {
      const random = createRandom(seed * 1000 + i);
      const text = JSON.stringify(schema);
      const session = await this.#guides.open({ type: "json_schema", text }, Int32Array.of(END));
      const { ids, takenBack } = await generate(session, random).finally(() => session.close());
      counts.tokens += ids.length;
      counts.takenBack += takenBack;
      if (ids.at(-1) !== END) {
        counts.cut += 1;
        continue;
      }
      counts.finished += 1;
      const output = this.#tokenizer.decode(ids.slice(0, -1), { skipSpecialTokens: false });
      assert.equal(faultIn(output, schema), undefined, `seed ${seed}: ${output} of the schema ${text}`);
    }
    return counts;
  }
}

function faultIn(output: string, schema: Schema): string | undefined {
  try {
    return faultOf(JSON.parse(output), schema);
  } catch (error) {
    return String(error);
  }
}

async function generate(session: GuideSession, random: Random): Promise<{ ids: number[]; takenBack: number }> {
  const ids: number[] = [];
  let takenBack = 0;
  while (ids.length < MAX_TOKENS && ids.at(-1) !== END) {
    if (random.below(DRAFT_STEPS) === 0) takenBack += await takeBack(session, random);
    const id = chosen(session.mask, random);
    ids.push(id);
    if (id !== END) await accept(session, id);
  }
  return { ids, takenBack };
}

async function accept(session: GuideSession, id: number): Promise<void> {
  session.accept(id);
  await session.pending;
  assert.equal(session.failure, undefined);
}

/** Drafts that the model did not choose. Gives their number. */
async function takeBack(session: GuideSession, random: Random): Promise<number> {
  const before = session.mask.slice();
  let count = 0;
  for (const end = 1 + random.below(MAX_DRAFTS); count < end; count++) {
    const id = chosen(session.mask, random);
    if (id === END) break;
    await accept(session, id);
  }
  if (count === 0) return 0;
  session.rollback?.(count);
  await session.pending;
  assert.deepEqual(session.mask, before, `the mask after ${count} tokens were taken back`);
  return count;
}

/** An allowed token. The end is taken as soon as it is allowed, so that outputs do not grow without need. */
function chosen(mask: Int32Array, random: Random): number {
  const isAllowed = (id: number): boolean => (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1;
  if (isAllowed(END)) return END;
  const start = random.below(VOCABULARY);
  for (let i = 0; i < VOCABULARY; i++) {
    const id = (start + i) % VOCABULARY;
    if (isAllowed(id)) return id;
  }
  throw new assert.AssertionError({ message: "no token is allowed" });
}

export function addOutputs(a: OutputCounts, b: OutputCounts): OutputCounts {
  return {
    finished: a.finished + b.finished,
    cut: a.cut + b.cut,
    tokens: a.tokens + b.tokens,
    takenBack: a.takenBack + b.takenBack,
  };
}
