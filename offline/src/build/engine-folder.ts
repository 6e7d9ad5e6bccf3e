/** Writes an engine folder: config.json, weight file, tokenizer. The caller packs the weights. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { EngineHeader } from "@nereid/server/formats/trtllm/engine-header";
import { isTrtllmConfig } from "@nereid/server/formats/trtllm/config";
import { openAtomicFolder } from "@nereid/server/files/atomic-output";
import { checkpointConfig, expectWrittenClass, NOT_QUANTIZED } from "../checkpoint/checkpoint-config.ts";
import { chooseCheckpointType } from "../checkpoint/convert-checkpoint.ts";
import { type OpenedDecoder } from "../checkpoint/open-decoder.ts";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { EngineWriter, engineBytes } from "./engine-writer.ts";
import { existingOutput } from "@nereid/server/files/output-folder";
import type { ProgressTask, Reporter } from "@nereid/server/files/progress";
import { copyTokenizer } from "../checkpoint/tokenizer-copy.ts";

export interface EngineFolder {
  readonly checkpointDir: string;
  readonly outputDir: string;
  /** Content of `build_config` in config.json. */
  readonly buildConfig: Readonly<Record<string, unknown>>;
  readonly header: EngineHeader;
  /** Measurements and choices, for people; written to `build_config`. */
  readonly notes: Readonly<Record<string, unknown>>;
  /** The checkpoint's rank mapping is kept: several GPUs cut tensors when they read them. */
  readonly keepsMapping?: boolean;
  readonly opened: OpenedDecoder;
  readonly reporter: Reporter;
}

const VERSION = "nereid-1";

/** `writeTensors` writes every tensor of the header. Returns the bytes of the engine file. */
export async function writeEngineFolder(
  { checkpointDir, outputDir, buildConfig, header, notes, keepsMapping, opened, reporter }: EngineFolder,
  writeTensors: (file: EngineWriter, task: ProgressTask) => Promise<void>,
): Promise<number> {
  const numBytes = engineBytes(header);
  await requireFreeBytes(outputDir, numBytes);
  await using folder = await openAtomicFolder(outputDir, { existing: await existingOutput(outputDir) });
  const total = header.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const task = reporter.startTask({ task: "pack", unit: "bytes", total });
  try {
    await using file = await EngineWriter.create(join(folder.path, "rank0.engine"), header);
    await writeTensors(file, task);
    file.finish();
  } finally {
    task.end();
  }
  const config = {
    version: VERSION,
    pretrained_config: pretrainedConfig(opened, keepsMapping === true),
    build_config: { ...buildConfig, nereid: { ...header.target, ...notes } },
  };
  await writeFile(join(folder.path, "config.json"), `${JSON.stringify(config, undefined, 2)}\n`);
  await copyTokenizer(checkpointDir, folder.path);
  await folder.commit();
  return numBytes;
}

/** Before anything is measured. @throws ToolError for a Hugging Face folder of a class that is not written */
export function expectWritable({ source, files }: OpenedDecoder): void {
  if (!isTrtllmConfig(source)) expectWrittenClass(files.config);
}

/** An engine is one file, independent of the ranks of the checkpoint. */
function pretrainedConfig(
  { source, files, parsed, tensors }: OpenedDecoder,
  keepsMapping: boolean,
): Readonly<Record<string, unknown>> {
  const mapping = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;
  if (isTrtllmConfig(source)) {
    if (keepsMapping) return source as Readonly<Record<string, unknown>>;
    return { ...(source as object), use_parallel_embedding: false, mapping: { world_size: 1, tp_size: 1, pp_size: 1 } };
  }
  const dtype = chooseCheckpointType("auto", parsed, tensors);
  return checkpointConfig({ source: files.config, config: parsed.config, dtype, mapping, quantization: NOT_QUANTIZED });
}
