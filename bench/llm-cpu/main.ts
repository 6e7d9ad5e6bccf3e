/**
 * Prefill and decode of Llama-3.2-1B shapes with random weights, side by side: Nereid's step runner and libllama of the
 * same npm package, each reading the same GGUF file, taking turns on an otherwise idle machine.
 * `npm run bench:llm-cpu -- [--shape=1b|100mb] [--formats=bf16,q8_0,q4_0] [--rounds=3] [--threads=2] [--name=llm-cpu]`
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { Contestant } from "./contestant.ts";
import { SHAPE_1B, SHAPE_100MB, type WeightFormat, writeRandomGguf } from "./random-gguf.ts";
import type { Job } from "./worker-protocol.ts";

const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const MAX_BATCH = 32;
const MAX_CONTEXT = 576;

const { values: flags } = parseArgs({
  options: {
    shape: { type: "string", default: "1b" },
    formats: { type: "string", default: "bf16,q8_0,q4_0" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: "2" },
    name: { type: "string", default: "" },
  },
});

interface Case {
  readonly name: string;
  readonly job: Job;
  readonly tokensPerTime: number;
}

const CASES: readonly Case[] = [
  { name: "prefill 512", job: { kind: "prefill", numTokens: 512 }, tokensPerTime: 512 },
  ...[1, 8, 32].map((batch) => ({
    name: `decode ${batch}`,
    job: { kind: "decode", batch, context: 32, numSteps: batch === 1 ? 16 : 6 } as const,
    tokensPerTime: batch,
  })),
];

interface Row {
  readonly format: string;
  readonly work: string;
  /** Tokens per second of the fastest time of all rounds; what else runs on the machine slows the others. */
  readonly nereid: number;
  readonly libllama: number;
}

const modelPath = join(mkdtempSync(join(tmpdir(), "llm-cpu-")), "random.gguf");
const rows: Row[] = [];
try {
  for (const format of flags.formats.split(",") as WeightFormat[]) {
    await writeRandomGguf(modelPath, flags.shape === "1b" ? SHAPE_1B : SHAPE_100MB, format);
    rows.push(...(await compare(format)));
  }
} finally {
  rmSync(join(modelPath, ".."), { recursive: true });
}
const text = table(
  ["weights", "work", "Nereid tokens/s", "libllama tokens/s", "ratio"],
  rows.map(({ format, work, nereid, libllama }) => [
    format,
    work,
    figure(nereid),
    figure(libllama),
    (nereid / libllama).toFixed(2),
  ]),
);
console.log(text);
if (flags.name !== "") save();

async function compare(format: WeightFormat): Promise<Row[]> {
  const contestants = [new Contestant("Nereid", "nereid-worker.ts"), new Contestant("libllama", "libllama-worker.ts")];
  try {
    const setup = {
      modelPath,
      format,
      numThreads: Number(flags.threads),
      maxBatch: MAX_BATCH,
      maxContext: MAX_CONTEXT,
    };
    for (const contestant of contestants) await contestant.ask(setup);
    const found: Row[] = [];
    for (const { name, job, tokensPerTime } of CASES) {
      const fastest = contestants.map(() => Number.POSITIVE_INFINITY);
      for (let round = 0; round < Number(flags.rounds); round++) {
        for (const [i, contestant] of contestants.entries()) {
          fastest[i] = Math.min(fastest[i] ?? 0, ...(await contestant.ask(job)));
        }
      }
      const [nereid = Number.NaN, libllama = Number.NaN] = fastest.map((ms) => (tokensPerTime * 1000) / ms);
      found.push({ format, work: name, nereid, libllama });
      console.error(`${format} ${name}: ${figure(nereid)} and ${figure(libllama)}`);
    }
    return found;
  } finally {
    for (const contestant of contestants) await contestant.close();
  }
}

function save(): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:llm-cpu -- ${process.argv.slice(2).join(" ")}`);
  writeRawResults(flags.name, { ...about, rows });
  const head = [
    "# Language model on the CPU, beside libllama",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`. Random weights of the named shape, both read the same file, ${flags.threads} threads.`,
    "",
    "Tokens per second come from the fastest step of all rounds, in which the two take turns. Both compute the logits of each",
    "sequence's last token, with an f16 KV cache and flash attention. Decoding uses contexts of 32 tokens.",
  ];
  writeFileSync(`${RESULTS}${flags.name}.md`, `${[...head, "", text].join("\n")}\n`);
}
