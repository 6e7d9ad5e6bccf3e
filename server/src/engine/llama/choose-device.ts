/** Chooses the device of libllama: GPUs of a package that the user installed, where layers are to lie on them, else the CPU. */
import { findGpuPackage, type GpuPackageSearch } from "../../device/llama/gpu-packages.ts";
import { type Llama, openLlama } from "../../device/llama/llama-model.ts";
import type { EngineSpec } from "../engine-spec.ts";

export interface LlamaDevice {
  readonly llama: Llama;
  /** 0: the CPU computes all. */
  readonly numGpuLayers: number;
  /** For the log: "the CPU", "NVIDIA H200 (all layers)". */
  readonly title: string;
  /** Free memory of the GPUs; undefined: of the machine. */
  readonly freeBytes: number | undefined;
  /** Why a GPU that was asked for is not used. */
  readonly note: string | undefined;
}

/** All layers of any model. */
const ALL_LAYERS = 9999;

/** GPUs are used for instances of KIND_GPU, or where the configuration names a number of layers. */
export function chooseLlamaDevice(
  { gpu, gpuLayers }: Pick<EngineSpec, "gpu" | "gpuLayers">,
  search: () => GpuPackageSearch = findGpuPackage,
  open: (directory?: string) => Llama = openLlama,
): LlamaDevice {
  const numGpuLayers = gpuLayers ?? (gpu === undefined ? 0 : ALL_LAYERS);
  const onCpu = (llama: Llama, note?: string): LlamaDevice => ({
    llama,
    numGpuLayers: 0,
    title: "the CPU",
    freeBytes: undefined,
    note,
  });
  if (numGpuLayers === 0) return onCpu(open());
  const { found, misses } = search();
  if (found === undefined) {
    const why = misses.join("; ");
    return onCpu(open(), `the llama.cpp engine computes on the CPU, although GPUs are asked for: ${why}`);
  }
  const llama = open(found.directory);
  const gpus = llama.ggml.gpus();
  if (gpus.length === 0) return onCpu(llama, `the llama.cpp engine computes on the CPU: ${found.name} finds no GPU`);
  const layers = numGpuLayers >= ALL_LAYERS ? "all layers" : `${numGpuLayers} layers`;
  return {
    llama,
    numGpuLayers,
    title: `${gpus.map(({ name }) => name).join(" and ")} (${layers}, ${found.name})`,
    freeBytes: numGpuLayers >= ALL_LAYERS ? gpus.reduce((sum, { freeBytes }) => sum + freeBytes, 0) : undefined,
    note: undefined,
  };
}
