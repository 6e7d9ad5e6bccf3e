/**
 * The example's pipeline of vision and look-up under load: 32 clients of the ensemble `vlm_search`, beside one client that makes
 * the same steps by itself, one call after another. With a PostgreSQL server at hand (NEREID_POSTGRES_BIN) its death under load.
 *
 *   npm run bench:vision -- --seconds 20 --captions 10000 --threads 1
 */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { findPostgres, PostgresServer } from "../../tests/support/postgres-server.ts";
import type { ServerProcess } from "../../tests/support/server-process.ts";
import {
  createVisionRepository,
  generate,
  indexCaptions,
  makeCaptions,
  readScenes,
  renderScenes,
  startVisionServer,
} from "../../tests/support/vision-server.ts";
import { type Measured, measure } from "./measure.ts";
import { cpuPerRequest, cpuTimes } from "./process-cpu.ts";
import { stepsOneByOne } from "./steps.ts";

const CLIENTS = 32;
/** More than are asked about: no answer gains from an image that was seen before. */
const NUM_IMAGES = 4000;
const QUESTION = "How many shapes are there?";
const MAX_TOKENS = 12;
const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "20" },
    captions: { type: "string", default: "10000" },
    // Threads of the language model, the same for one client and many. By default it takes all processors that are idle
    // when it is loaded, so that runs would not compare. One thread leaves the other of two processors to all other
    // steps.
    threads: { type: "string", default: "1" },
    output: { type: "string" },
  },
});
const durationMs = Number(flags.seconds) * 1000;

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const round = (value: number): number => Math.round(value * 100) / 100;
const line = (name: string, { perSecond, p50, p99, count, failures }: Measured): string =>
  `${name.padEnd(34)} ${round(perSecond)} requests/s, p50 ${round(p50)} ms, p99 ${round(p99)} ms (${count} answered, ${failures.size} kinds of failures)`;

interface StepStatistics {
  readonly name: string;
  readonly inference_count: number;
  readonly execution_count: number;
  readonly inference_stats: Readonly<Record<"success" | "queue" | "compute_infer", { count: number; ns: number }>>;
}

async function statistics({ baseUrl }: ServerProcess): Promise<readonly StepStatistics[]> {
  const reply = (await (await fetch(`${baseUrl}/v2/models/stats`)).json()) as { model_stats: StepStatistics[] };
  return reply.model_stats.filter(({ inference_count }) => inference_count > 0);
}

function stepLines(stats: readonly StepStatistics[]): string[] {
  return stats.map(({ name, inference_count, execution_count, inference_stats: { success, queue, compute_infer } }) => {
    const each = (of: { ns: number }): number => round(of.ns / 1e6 / Math.max(1, success.count));
    const batch = round(inference_count / Math.max(1, execution_count));
    return `  ${name.padEnd(22)} ${each(success)} ms a request (queue ${each(queue)}, compute ${each(compute_infer)}), batches of ${batch}`;
  });
}

const found = findPostgres();
const postgres = "bin" in found ? await PostgresServer.create(found.bin) : undefined;
if ("reason" in found) say(`No PostgreSQL: ${found.reason}. Captions are in memory.`);
const repository = createVisionRepository(postgres?.url ?? "memory:../../store");
const model = join(repository.folder, "vision_repository/vision_llm/config.pbtxt");
appendFileSync(model, `parameters { key: "num_threads" value { string_value: "${Number(flags.threads)}" } }\n`);
const captions = join(repository.folder, "captions.jsonl");
const folder = join(repository.folder, "pictures");
await makeCaptions(captions, Number(flags.captions));
await indexCaptions(repository, captions, postgres?.url ?? `memory:${join(repository.folder, "store")}`, [
  "--approximate",
]);
await renderScenes(folder, NUM_IMAGES);
const images = readScenes(folder).map(({ file }) => readFileSync(join(folder, file)));
const server = await startVisionServer(repository);
const results: Record<string, unknown> = {
  clients: CLIENTS,
  seconds: Number(flags.seconds),
  captions: Number(flags.captions),
  threads: Number(flags.threads),
  store: postgres === undefined ? "memory" : "postgresql",
};

try {
  let shown = 0;
  const nextImage = (): Buffer => images[shown++ % images.length] ?? Buffer.alloc(0);
  const ask = (): Promise<unknown> => {
    const image = nextImage().toString("base64");
    return generate(server, "vlm_search", { image, text_input: QUESTION, max_tokens: MAX_TOKENS });
  };
  const processes = (): number[] => [server.pid, process.pid, postgres?.pid].filter((pid) => pid !== undefined);
  await measure(8, Math.min(3000, durationMs), ask); // warm
  const alone = await measure(1, durationMs, () => stepsOneByOne(server.baseUrl, nextImage(), QUESTION, MAX_TOKENS));
  say(line("1 client, one step after another", alone));
  const single = await measure(1, durationMs, ask);
  say(line("1 client, one request", single));
  const before = await statistics(server);
  const cpuBefore = cpuTimes(processes());
  const many = await measure(CLIENTS, durationMs, ask);
  const cpuMs = cpuPerRequest(cpuBefore, cpuTimes(processes()), many.count);
  say(line(`${CLIENTS} clients, one request each`, many));
  const after = await statistics(server);
  const steps = stepLines(
    after.map((stats) =>
      difference(
        stats,
        before.find(({ name }) => name === stats.name),
      ),
    ),
  );
  for (const step of steps) say(step);
  for (const [name, ms] of Object.entries(cpuMs)) say(`  ${name.padEnd(22)} ${ms} ms of CPU time a request`);
  const ratio = many.perSecond / alone.perSecond;
  say(`${round(ratio)} times the client that makes the steps itself`);
  Object.assign(results, { alone, single, many, steps, cpuMs, ratio });
  if (postgres !== undefined) Object.assign(results, { outage: await outage(postgres, ask) });
} finally {
  await server.kill();
  await postgres?.[Symbol.asyncDispose]();
  repository[Symbol.dispose]();
}
if (flags.output !== undefined) {
  mkdirSync(join(flags.output, ".."), { recursive: true });
  writeFileSync(
    flags.output,
    `${JSON.stringify(results, (_, value) => (value instanceof Map ? Object.fromEntries(value) : value), 2)}\n`,
  );
}

/** The store dies and comes back, while other models are asked as well. */
async function outage(store: PostgresServer, ask: () => Promise<unknown>): Promise<unknown> {
  const killed = (async () => {
    await sleep(durationMs / 4);
    await store.kill();
    await sleep(durationMs / 4);
    await store.start();
    return performance.now();
  })();
  let firstGoodMs: number | undefined;
  const startedMs = killed.then((atMs) => atMs);
  const watch = async (): Promise<void> => {
    await ask();
    const atMs = await Promise.race([startedMs, Promise.resolve(undefined)]);
    if (atMs !== undefined) firstGoodMs ??= performance.now() - atMs;
  };
  const others = (i: number): Promise<unknown> =>
    generate(server, "ensemble", { text_input: `Once upon a time ${i}`, max_tokens: 4, bad_words: "", stop_words: "" });
  const [look, other] = await Promise.all([measure(CLIENTS / 4, durationMs, watch), measure(2, durationMs, others)]);
  await killed;
  say(line("look-ups while PostgreSQL dies", look));
  for (const [failure, count] of look.failures) say(`  ${count} x ${failure}`);
  say(line("other models meanwhile", other));
  say(`first answer ${round(firstGoodMs ?? Number.NaN)} ms after PostgreSQL was back`);
  return { look, other, firstGoodMs };
}

function difference(after: StepStatistics, before: StepStatistics | undefined): StepStatistics {
  if (before === undefined) return after;
  const less = (key: "success" | "queue" | "compute_infer"): { count: number; ns: number } => ({
    count: after.inference_stats[key].count - before.inference_stats[key].count,
    ns: after.inference_stats[key].ns - before.inference_stats[key].ns,
  });
  return {
    name: after.name,
    inference_count: after.inference_count - before.inference_count,
    execution_count: after.execution_count - before.execution_count,
    inference_stats: { success: less("success"), queue: less("queue"), compute_infer: less("compute_infer") },
  };
}
