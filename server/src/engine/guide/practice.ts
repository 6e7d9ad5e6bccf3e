/**
 * Runs texts through guides before there are any, so that mask threads and grammar processes have started and their code
 * is compiled when the first requests come together.
 */
import type { Guide } from "../request/generate.ts";
import type { GuideSession } from "./guides.ts";

/** Tokens of a text: enough for each thread's JIT compiler. */
const NUM_TOKENS = 64;
const MAX_MS = 2000;
/** Steps through the vocabulary without a pattern: a prime. */
const STRIDE = 7919;

/** Fields of the kinds that schemas mostly have. */
const FIELDS = [
  { type: "string" },
  { type: "integer", minimum: 0, maximum: 1000 },
  { type: "number" },
  { type: "boolean" },
  { enum: ["red", "green", "blue"] },
  { type: "array", items: { type: "string", maxLength: 40 }, maxItems: 5 },
  { type: "object", properties: { a: { type: "string", format: "date" }, b: { type: "null" } }, required: ["a"] },
  { type: "string", pattern: "^[a-z]{2,8}-[0-9]+$" },
];

/** `numTexts` of them side by side, each with a schema of its own. @throws Error when guides do not work */
export async function practise(
  open: (guide: Guide) => Promise<GuideSession>,
  numTexts: number,
  vocabSize: number,
): Promise<void> {
  const endMs = performance.now() + MAX_MS;
  await Promise.all(
    Array.from({ length: numTexts }, async (_, text) => {
      const session = await open({ type: "json_schema", text: JSON.stringify(schemaOf(text)) });
      for (let step = 0; step < NUM_TOKENS && performance.now() < endMs; step++) {
        await session.pending;
        const token = allowedToken(session, (text * NUM_TOKENS + step) * STRIDE, vocabSize);
        if (token === undefined) break;
        session.accept(token);
      }
      await session.pending;
      session.close();
    }),
  );
}

function schemaOf(text: number): object {
  const names = FIELDS.map((_, i) => `practice_${text}_${i}`);
  const properties = Object.fromEntries(names.map((name, i) => [name, FIELDS[(i + text) % FIELDS.length]]));
  return { type: "object", properties, required: names, additionalProperties: false };
}

/** The first allowed token from a place on; undefined when the text ends here or there are no more masks. */
function allowedToken({ mask, failure }: GuideSession, place: number, vocabSize: number): number | undefined {
  if (failure !== undefined) return undefined;
  const numWords = mask.length;
  const first = Math.floor((place % vocabSize) / 32);
  for (let i = 0; i < numWords; i++) {
    const at = (first + i) % numWords;
    const word = mask[at] ?? 0;
    if (word !== 0) return 32 * at + (31 - Math.clz32(word & -word));
  }
  return undefined;
}
