/**
 * Builds a CPU engine from a checkpoint: weights in device types and order, so that loading is a plain read. It knows
 * no command line.
 */
import type { FloatType, WeightType } from "@nereid/server/device/cpu/convert-elements";
import { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import { fillTensor, packedName } from "@nereid/server/models/cpu/weights";
import { dtypeOf } from "@nereid/server/models/weights/weight-types";
import { chooseGemms, type EngineChoice, type EnginePlan } from "./choose-gemms.ts";
import { type OpenedDecoder, openDecoder } from "../checkpoint/open-decoder.ts";
import { expectWritable, writeEngineFolder } from "./engine-folder.ts";
import { planEngine } from "./engine-writer.ts";
import type { Reporter } from "@nereid/server/files/progress";

export interface BuildOptions {
  /** A checkpoint, or any other model folder. */
  readonly checkpointDir: string;
  readonly outputDir: string;
  /** Type of the matrices; "auto": blocks as stored, floats in `floatType`. */
  readonly weightType: WeightType | "auto";
  /** "auto": the fastest type on this machine. */
  readonly floatType: FloatType | "auto";
  /** Content of `build_config` in config.json. */
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
    expectWritable(opened);
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
