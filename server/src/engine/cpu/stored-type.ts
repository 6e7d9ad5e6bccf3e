/**
 * Decides whether the floats of a checkpoint stay in the type of its files on this processor: `weight_type` "stored". They do
 * where a GEMM of one row, the work of a decoding sequence, is hardly slower than with f32; memory is halved then.
 */
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { CpuBuffer } from "../../device/cpu/cpu-buffer.ts";
import { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import { byteSize } from "../../device/cpu/cpu-tensor.ts";
import { openModelFiles } from "../../formats/hf/model-files.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { RequestedType } from "../../models/weights/weight-types.ts";
import type { EngineSpec } from "../engine-spec.ts";

/** A narrow type may take this much longer than f32. */
const MAX_SLOWDOWN = 1.1;
/** Larger than the caches of a core: weights are read from memory, as those of models are. */
const [OUTPUTS, INPUTS] = [4096, 2048];
const NUM_RUNS = 40;

type Narrow = "bf16" | "f16";

/** The spec with a type that is known to suit the processor. @throws Error as opening the model does */
export async function withChosenType(
  spec: EngineSpec,
  tell: (line: string) => void,
  measure: typeof rowMilliseconds = rowMilliseconds,
): Promise<EngineSpec> {
  if (spec.weightType !== "stored") return spec;
  const { tensors } = await openModelFiles(spec.modelDir);
  await tensors.close();
  const type = narrowTypeOf(tensors);
  if (type === undefined) return { ...spec, weightType: undefined };
  const [narrow, wide] = await measure(type, spec.numThreads);
  const times = `a GEMM of one row takes ${narrow.toFixed(2)} ms, and ${wide.toFixed(2)} ms with f32`;
  const isKept = narrow <= MAX_SLOWDOWN * wide;
  tell(isKept ? `weights stay ${type}: ${times}` : `weights become f32, as ${type} is slow here: ${times}`);
  const weightType: RequestedType | undefined = isKept ? "stored" : undefined;
  return { ...spec, weightType };
}

/** The type of most bytes, if it is a narrow one. */
export function narrowTypeOf({ tensors }: Pick<TensorSource, "tensors">): Narrow | undefined {
  const bytes = new Map<string, number>();
  for (const { dtype, byteLength } of tensors.values()) bytes.set(dtype, (bytes.get(dtype) ?? 0) + byteLength);
  const [most] = [...bytes].sort(([, a], [, b]) => b - a);
  if (most?.[0] === "BF16") return "bf16";
  return most?.[0] === "F16" ? "f16" : undefined;
}

/** Times of the fastest runs with a narrow type and with f32, which take turns: other work disturbs both alike. */
async function rowMilliseconds(type: Narrow, numThreads: number): Promise<readonly [narrow: number, wide: number]> {
  const device = new CpuDevice({ numThreads: numThreads > 0 ? numThreads : undefined });
  const shape = [OUTPUTS, INPUTS] as const;
  const buffer = new CpuBuffer(device, [
    { type, shape },
    { type: "f32", shape },
  ]);
  const graph = new CpuGraph(device);
  try {
    for (const weight of buffer.tensors) buffer.write(weight, new Uint8Array(byteSize(weight)));
    const fastest = buffer.tensors.map(() => Number.POSITIVE_INFINITY);
    for (let i = 0; i < NUM_RUNS; i++) {
      for (const [at, weight] of buffer.tensors.entries()) {
        graph.begin(16);
        const x = graph.input("f32", [1, INPUTS], new Float32Array(INPUTS).fill(1));
        graph.output(recordLinear(graph, { x, weight }));
        const start = performance.now();
        await graph.run();
        fastest[at] = Math.min(fastest[at] ?? 0, performance.now() - start);
      }
    }
    const [narrow = 0, wide = 0] = fastest;
    return [narrow, wide];
  } finally {
    graph.close();
    buffer.close();
    await device.close();
  }
}
