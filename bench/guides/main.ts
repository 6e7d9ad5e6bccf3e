/**
 * Guided decoding without a model: 64 requests, each with a schema of 20 fields of its own, whose tokens are chosen at
 * random among those that the mask allows. Prints CPU time to the first mask, time of a mask, and of a step of all.
 * `node --import ./tools/loader/register.mjs bench/guides/main.ts [folder with tokenizer.json]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { GrammarGuides } from "../../server/src/engine/guide/grammar-guides.ts";
import type { GuideSession } from "../../server/src/engine/guide/guides.ts";
import { createRandom } from "../../tests/support/random.ts";
import { schemaOf } from "../gpu/traffic/requests.ts";
import { writeVocabulary } from "../gpu/traffic/vocabulary.ts";

const VOCAB_SIZE = 128_256;
const NUM_CLIENTS = 64;
const NUM_STEPS = 256;
const END_ID = 1;

interface Asked {
  readonly open: (client: number) => Promise<GuideSession>;
  readonly random: () => number;
}

function percentile(values: readonly number[], share: number): string {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(3);
}

function report(what: string, values: readonly number[]): void {
  const [median, p99, max] = [0.5, 0.99, 1].map((share) => percentile(values, share));
  process.stdout.write(`${what}: median ${median} ms, p99 ${p99} ms, longest ${max} ms\n`);
}

/** A token near a random place of the vocabulary; undefined: only the end is left. */
function chosen({ mask }: GuideSession, random: () => number): number | undefined {
  const start = Math.floor(random() * VOCAB_SIZE);
  for (let i = 0; i < VOCAB_SIZE; i++) {
    const id = (start + i) % VOCAB_SIZE;
    if (id !== END_ID && (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1) return id;
  }
  return undefined;
}

interface Steps {
  /** From the tokens to the masks, of each step. */
  readonly waits: readonly number[];
  /** The process's time for a mask, on average in each step. */
  readonly cpuMs: readonly number[];
}

/** All sessions take a token in each step, as a batch does. */
async function runSteps(sessions: readonly GuideSession[], random: () => number): Promise<Steps> {
  const waits: number[] = [];
  const cpuMs: number[] = [];
  for (let step = 0; step < NUM_STEPS; step++) {
    const tokens = sessions.map((session) => chosen(session, random));
    const count = tokens.filter((token) => token !== undefined).length;
    if (count === 0) break;
    const startMs = performance.now();
    const before = process.cpuUsage();
    for (const [i, token] of tokens.entries()) if (token !== undefined) sessions[i]?.accept(token);
    for (const session of sessions) await session.pending;
    const { user, system } = process.cpuUsage(before);
    waits.push(performance.now() - startMs);
    cpuMs.push((user + system) / 1000 / count);
    for (const { failure } of sessions) if (failure !== undefined) throw failure;
  }
  return { waits, cpuMs };
}

async function measure({ open, random }: Asked, what: string): Promise<void> {
  const opened: number[] = [];
  const sessions: GuideSession[] = [];
  for (let client = 0; client < NUM_CLIENTS; client++) {
    const startMs = performance.now();
    sessions.push(await open(client));
    opened.push(performance.now() - startMs);
  }
  report(`${what}: first mask of a new schema`, opened);
  const { waits, cpuMs } = await runSteps(sessions, random);
  report(`${what}: a step of ${NUM_CLIENTS} masks`, waits);
  report(`${what}: CPU of a mask`, cpuMs);
  for (const session of sessions) session.close();
}

async function main(): Promise<void> {
  const [given] = process.argv.slice(2);
  const folder = given ?? mkdtempSync(join(tmpdir(), "nereid-guides-"));
  if (given === undefined) writeVocabulary(folder, VOCAB_SIZE);
  const guides = new GrammarGuides({ tokenizerDir: folder, vocabSize: VOCAB_SIZE });
  const open = (client: number): Promise<GuideSession> =>
    guides.open({ type: "json_schema", text: schemaOf(client) }, Int32Array.of(END_ID));
  await guides.open({ type: "json", text: "" }, Int32Array.of(END_ID)); // the tokenizer is read
  const random = createRandom(1).next;
  await measure({ open, random }, "new schemas");
  await measure({ open, random }, "the same again");
  await guides.close();
  if (given === undefined) rmSync(folder, { recursive: true });
}

await main();
