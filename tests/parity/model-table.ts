/**
 * Writes docs/models.md: every class that our engine computes, from Hugging Face folders and GGUF files, on both devices, with
 * the largest difference to recorded logits of transformers. model-table.test.ts compares all but the measured numbers. After
 * an intended change:
 * node --conditions=nereid-source --import tsx tests/parity/model-table.ts
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { TextEncoder } from "../../server/src/engine/encoder/text-encoder.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { GGUF_ARCHITECTURES } from "../../server/src/formats/gguf/architectures.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { missingOnCuda } from "../../server/src/models/cuda/supported.ts";
import { type EncoderDecoder, encoderInputOf } from "./encoder-decoders.ts";

export const TABLE_FILE: string = fileURLToPath(new URL("../../docs/models.md", import.meta.url));

/** Sequences of these are served up to another length. */
const MAX_POSITIONS: ReadonlyMap<string, number> = new Map([["phi-3-longrope-short", 64]]);

export interface ModelRow {
  readonly className: string;
  readonly recorded: number;
  /** GGUF architectures that our engine reads as this class. */
  readonly gguf: string;
  readonly gpu: string;
}

interface Measured {
  difference: number;
  tokens: number;
  wrongTokens: number;
}

interface Folder {
  readonly name: string;
  readonly path: string;
  readonly config: { readonly architectures: readonly string[] };
}

function foldersOf(kind: string): readonly Folder[] {
  const at = new URL(`${kind}/`, import.meta.url);
  return readdirSync(at)
    .sort()
    .map((name) => {
      const path = fileURLToPath(new URL(name, at));
      return { name, path, config: JSON.parse(readFileSync(`${path}/config.json`, "utf8")) };
    });
}

function byClass(folders: readonly Folder[]): ReadonlyMap<string, readonly Folder[]> {
  const classes = new Map<string, Folder[]>();
  for (const folder of folders) {
    const [className = ""] = folder.config.architectures;
    classes.set(className, [...(classes.get(className) ?? []), folder]);
  }
  return new Map([...classes].sort(([a], [b]) => a.localeCompare(b)));
}

/** A class runs on a GPU if all its recorded configurations do. */
function gpuOf(folders: readonly Folder[]): string {
  const missing = folders.map(({ config, name }) => {
    const parsed = parseDecoderConfig({ config, generation: undefined, at: { config: name, generation: name } });
    return missingOnCuda(parsed.config, parsed.weights);
  });
  const all = [...new Set(missing.flat())];
  if (all.length === 0) return "yes";
  return missing.some((one) => one.length === 0) ? `in part: not ${all.join("; ")}` : `no: ${all.join("; ")}`;
}

export const DECODERS: ReadonlyMap<string, readonly Folder[]> = byClass([
  ...foldersOf("models"),
  ...foldersOf("architectures"),
]);
export const ENCODER_DECODERS: ReadonlyMap<string, readonly Folder[]> = byClass(foldersOf("encoder-decoders"));
export const ENCODERS: ReadonlyMap<string, readonly Folder[]> = byClass(foldersOf("text-encoders"));

export function decoderRows(): readonly ModelRow[] {
  return [...DECODERS].map(([className, folders]) => {
    const names = [...GGUF_ARCHITECTURES].filter(([, { dense, experts }]) => [dense, experts].includes(className));
    const gguf = names.map(([name]) => `\`${name}\``).join(", ");
    return { className, recorded: folders.length, gguf: gguf || "llama.cpp", gpu: gpuOf(folders) };
  });
}

async function measureDecoder({ name, path }: Folder, into: Measured): Promise<void> {
  const recorded = JSON.parse(readFileSync(`${path}/expected.json`, "utf8")) as EncoderDecoder;
  const { prompt, greedy, logits } = recorded;
  const hasEncoder = recorded.encoder !== undefined || recorded.frames !== undefined;
  const shape = { numBlocks: 64, blockSize: 4, numThreads: 1, maxPositions: MAX_POSITIONS.get(name) };
  const runner = await createDecoderRunner({ ...shape, modelDir: path });
  const input = hasEncoder ? encoderInputOf(recorded) : undefined;
  const sequence = new TestSequence(contiguousBlocks(0, 32), undefined, 0, input);
  let tokens = prompt;
  for (const [i, expected] of logits.entries()) {
    const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
    into.difference = Math.max(into.difference, maxDifference(actual, expected));
    into.tokens += 1;
    into.wrongTokens += argmax(actual) === greedy[i] ? 0 : 1;
    tokens = [greedy[i] ?? 0];
  }
  await runner.close();
}

async function measureEncoder({ path }: Folder, into: Measured): Promise<void> {
  const { texts, vectors } = JSON.parse(readFileSync(`${path}/expected.json`, "utf8")) as {
    readonly texts: readonly string[];
    readonly vectors: readonly (readonly number[])[];
  };
  const encoder = await TextEncoder.open({ path, numThreads: 1 });
  const values = await encoder.encode(texts.map((text) => [text] as const));
  const { width, isClassifier } = encoder;
  const lengths = texts.map((_, i) => (isClassifier ? 1 : Math.hypot(...values.subarray(i * width, (i + 1) * width))));
  const scaled = values.map((value, i) => value / (lengths[Math.floor(i / width)] ?? 1));
  into.difference = Math.max(into.difference, maxDifference(scaled, vectors.flat()));
  await encoder.close();
}

async function measured(
  classes: ReadonlyMap<string, readonly Folder[]>,
  measure: (folder: Folder, into: Measured) => Promise<void>,
): Promise<ReadonlyMap<string, Measured>> {
  const all = new Map<string, Measured>();
  for (const [className, folders] of classes) {
    const into = { difference: 0, tokens: 0, wrongTokens: 0 };
    for (const folder of folders) await measure(folder, into);
    all.set(className, into);
  }
  return all;
}

const TOP = `# Models

Each class of Hugging Face that our engine computes, recorded as tiny models with transformers ([tests/parity](../tests/parity)). The
difference is the largest of all logits on the CPU in f32, which reach about 2. All greedy tokens are counted.

COUNTS

A GGUF file of the architectures named here is read by our engine too; other files go to libllama, which computes
[114 architectures](../tests/llama-cpp/architectures.md) on the CPU and, with its packages, on GPUs. The GPU column is our engine's:
what it lacks is refused when the model loads.
`;

const PAIRS = `Texts or sound go to the encoder; the decoder attends to its rows. They run on the CPU, from Hugging Face folders; a GPU and
libllama's engine refuse them when they load. [Encoder-decoders](encoder-decoders.md) has their use.`;

/** How many classes and GGUF architectures are served, in one sentence each. */
export function countLines(): string {
  const onGpu = decoderRows().filter(({ gpu }) => gpu === "yes" || gpu.startsWith("in part")).length;
  const numClasses = DECODERS.size + ENCODER_DECODERS.size + ENCODERS.size;
  return (
    `Our engine computes ${numClasses} recorded classes: ${DECODERS.size} decoders, ${ENCODER_DECODERS.size} encoders with decoders and ${ENCODERS.size} encoders. ` +
    `${onGpu} of the decoders run on GPUs too, some in part. It reads ${GGUF_ARCHITECTURES.size} GGUF architectures.`
  );
}

async function table(): Promise<string> {
  const decoders = await measured(DECODERS, measureDecoder);
  const encoders = await measured(ENCODERS, measureEncoder);
  const pairs = await measured(ENCODER_DECODERS, measureDecoder);
  const numbersOf = ({ difference, tokens, wrongTokens }: Measured): string =>
    `${difference.toExponential(0)} | ${wrongTokens} of ${tokens}`;
  const none = { difference: 0, tokens: 0, wrongTokens: 0 };
  const rows = decoderRows().map(({ className, recorded, gguf, gpu }) => {
    const numbers = numbersOf(decoders.get(className) ?? none);
    return `| \`${className}\` | ${recorded} | ${numbers} | ${gguf} | ${gpu} |`;
  });
  const pairRows = [...pairs].map(
    ([className, one]) => `| \`${className}\` | ${ENCODER_DECODERS.get(className)?.length ?? 0} | ${numbersOf(one)} |`,
  );
  const vectors = [...ENCODERS].map(
    ([className, folders]) =>
      `| \`${className}\` | ${folders.length} | ${(encoders.get(className)?.difference ?? 0).toExponential(0)} |`,
  );
  const head =
    "| class | recorded | difference | tokens that differ | GGUF | GPU |\n| --- | --- | --- | --- | --- | --- |";
  const encoderHead = "| class | recorded | difference |\n| --- | --- | --- |";
  const about =
    "## Encoders\n\nVectors, or classes, of texts against sentence-transformers and transformers, on the CPU.";
  const pairHead = "| class | recorded | difference | tokens that differ |\n| --- | --- | --- | --- |";
  const pairTable = `## Encoders with decoders\n\n${PAIRS}\n\n${pairHead}\n${pairRows.join("\n")}`;
  return `${TOP.replace("COUNTS", countLines())}\n## Decoders\n\n${head}\n${rows.join("\n")}\n\n${pairTable}\n\n${about}\n\n${encoderHead}\n${vectors.join("\n")}\n`;
}

if (argv[1] === fileURLToPath(import.meta.url)) writeFileSync(TABLE_FILE, await table());
