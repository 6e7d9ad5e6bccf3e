/**
 * A checkpoint in, an engine for the CPU out: weights in the types and the order in which the device keeps them, so that
 * loading is a plain read. It knows no command line.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FloatType, WeightType } from "../device/cpu/convert-elements.ts";
import { CpuDevice } from "../device/cpu/cpu-device.ts";
import { isTrtllmConfig } from "../formats/trtllm-config.ts";
import { fillTensor, packedName } from "../models/decoder-weights.ts";
import { dtypeOf } from "../models/weight-types.ts";
import { openAtomicFolder } from "./atomic-output.ts";
import { checkpointConfig, NOT_QUANTIZED } from "./checkpoint-config.ts";
import { chooseProducts, type EngineChoice, type EnginePlan } from "./choose-products.ts";
import { chooseType, type OpenedDecoder, openDecoder } from "./convert-checkpoint.ts";
import { requireFreeBytes } from "./disk-space.ts";
import { EngineWriter, engineBytes, planEngine } from "./engine-writer.ts";
import { existingOutput } from "./output-folder.ts";
import type { Reporter } from "./progress.ts";
import { copyTokenizer } from "./tokenizer-copy.ts";

export interface BuildOptions {
  /** A checkpoint; any other folder with a model will do. */
  readonly checkpointDir: string;
  readonly outputDir: string;
  /** Of the matrices; "auto": blocks as they are stored, floats in `floatType`. */
  readonly weightType: WeightType | "auto";
  /** "auto": the type that is fastest here. */
  readonly floatType: FloatType | "auto";
  /** What `build_config` of config.json is to hold. */
  readonly buildConfig: Readonly<Record<string, unknown>>;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface BuildSummary extends Omit<EngineChoice, "plans"> {
  readonly numBytes: number;
}

const VERSION = "nereid-1";

export async function buildEngine(options: BuildOptions): Promise<BuildSummary> {
  const opened = await openDecoder(options.checkpointDir);
  const device = new CpuDevice();
  try {
    const { plans, ...choice } = await chooseProducts(options, opened, device);
    return { numBytes: await writeEngine(options, opened, device, plans, choice), ...choice };
  } finally {
    await device.close();
    await opened.tensors.close();
  }
}

async function writeEngine(
  { checkpointDir, outputDir, buildConfig, reporter, signal }: BuildOptions,
  opened: OpenedDecoder,
  device: CpuDevice,
  plans: readonly EnginePlan[],
  { products, threads, threadTimings }: Omit<EngineChoice, "plans">,
): Promise<number> {
  const tensors = plans.map((plan) => {
    const { type, shape, layout } = plan;
    return { name: packedName(plan), dtype: dtypeOf(type), shape, ...(layout === undefined ? {} : { layout }) };
  });
  const header = planEngine(tensors, device.target, threads);
  const numBytes = engineBytes(header);
  await requireFreeBytes(outputDir, numBytes);
  await using folder = await openAtomicFolder(outputDir, { existing: await existingOutput(outputDir) });
  const total = header.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const task = reporter.startTask({ task: "pack", unit: "bytes", total });
  try {
    await using file = await EngineWriter.create(join(folder.path, "rank0.engine"), header);
    for (const [i, plan] of plans.entries()) {
      const { write, end } = file.writer(i);
      const counted = (piece: Uint8Array | Float32Array): void => {
        signal.throwIfAborted();
        write(piece);
        task.add(piece.byteLength, packedName(plan));
      };
      await fillTensor(device.ggml, { write: counted }, plan, opened.tensors);
      end();
    }
    file.finish();
  } finally {
    task.end();
  }
  const config = {
    version: VERSION,
    pretrained_config: pretrainedConfig(opened),
    build_config: {
      ...buildConfig,
      nereid: { ...header.target, threads, products, thread_timings: threadTimings },
    },
  };
  await writeFile(join(folder.path, "config.json"), `${JSON.stringify(config, undefined, 2)}\n`);
  await copyTokenizer(checkpointDir, folder.path);
  await folder.commit();
  return numBytes;
}

/** An engine for one device is one file, however many ranks the checkpoint was split over. */
function pretrainedConfig({ source, files, parsed, tensors }: OpenedDecoder): Readonly<Record<string, unknown>> {
  const mapping = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;
  if (isTrtllmConfig(source)) {
    return { ...(source as object), use_parallel_embedding: false, mapping: { world_size: 1, tp_size: 1, pp_size: 1 } };
  }
  const dtype = chooseType("auto", parsed, tensors);
  return checkpointConfig({ source: files.config, config: parsed.config, dtype, mapping, quantization: NOT_QUANTIZED });
}
