/**
 * A checkpoint in, an engine for the CPU out: weights in the types and the order in which the device keeps them, so that
 * loading is a plain read. It knows no command line.
 */
import type { FloatType, WeightType } from "@nereid/server/device/cpu/convert-elements";
import { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import { fillTensor, packedName } from "@nereid/server/models/cpu/weights";
import { dtypeOf } from "@nereid/server/models/weights/weight-types";
import { chooseGemms, type EngineChoice, type EnginePlan } from "./choose-gemms.ts";
import { type OpenedDecoder, openDecoder } from "../checkpoint/convert-checkpoint.ts";
import { writeEngineFolder } from "./engine-folder.ts";
import { planEngine } from "./engine-writer.ts";
import type { Reporter } from "@nereid/server/files/progress";

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

export async function buildEngine(options: BuildOptions): Promise<BuildSummary> {
  const opened = await openDecoder(options.checkpointDir);
  const device = new CpuDevice();
  try {
    const { plans, ...choice } = await chooseGemms(options, opened, device);
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
  const header = planEngine(tensors, device.target, { threads });
  const files = { checkpointDir, outputDir, buildConfig, header, opened, reporter };
  return writeEngineFolder(
    { ...files, notes: { threads, products, thread_timings: threadTimings } },
    async (file, task) => {
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
    },
  );
}
