/**
 * GPU metrics by Triton's names (Triton documentation, "Metrics", GPU Metrics). Read at intervals, independent of
 * scrapes; a page shows the latest values.
 */
import type { GpuReading, MonitoredGpu } from "../native/cuda/nvml.ts";
import type { MetricFamily, MetricSample, MetricType } from "./metrics.ts";

interface Watched {
  readonly gpu: MonitoredGpu;
  /** Energy counts from the server's start. */
  firstJoules: number | undefined;
  reading: GpuReading | undefined;
}

type Figure = readonly [
  name: string,
  help: string,
  type: MetricType,
  read: (reading: GpuReading, watched: Watched) => number | undefined,
];

const FIGURES: readonly Figure[] = [
  ["nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", "gauge", ({ utilization }) => utilization],
  ["nv_gpu_memory_total_bytes", "GPU total memory, in bytes", "gauge", ({ totalBytes }) => totalBytes],
  ["nv_gpu_memory_used_bytes", "GPU used memory, in bytes", "gauge", ({ usedBytes }) => usedBytes],
  ["nv_gpu_power_usage", "GPU power usage in watts", "gauge", ({ powerWatts }) => powerWatts],
  ["nv_gpu_power_limit", "GPU power management limit in watts", "gauge", ({ powerLimitWatts }) => powerLimitWatts],
  [
    "nv_energy_consumption",
    "GPU energy consumption in joules since the Triton Server started",
    "counter",
    ({ energyJoules }, { firstJoules }) => difference(energyJoules, firstJoules),
  ],
];

export class GpuWatch implements Disposable {
  readonly families: readonly MetricFamily[];
  readonly #watched: readonly Watched[];
  readonly #timer: NodeJS.Timeout;
  #isReading = false;

  /** Reads twice per `intervalMs`. */
  constructor(gpus: readonly MonitoredGpu[], intervalMs: number) {
    this.#watched = gpus.map((gpu) => ({ gpu, firstJoules: undefined, reading: undefined }));
    this.families = FIGURES.map((figure) => this.#familyOf(figure));
    this.#timer = setInterval(() => void this.read(), Math.max(1, intervalMs / 2));
    this.#timer.unref();
  }

  /** One reading at a time: a hanging driver is asked once. */
  async read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    for (const watched of this.#watched) {
      watched.reading = await watched.gpu.read();
      watched.firstJoules ??= watched.reading.energyJoules;
    }
    this.#isReading = false;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #familyOf([name, help, type, read]: Figure): MetricFamily {
    const watched = this.#watched;
    function* collect(): Generator<MetricSample> {
      for (const one of watched) {
        const value = one.reading && read(one.reading, one);
        if (value !== undefined) yield { labels: { gpu_uuid: one.gpu.uuid }, value };
      }
    }
    return { name, help, type, collect };
  }
}

function difference(now: number | undefined, before: number | undefined): number | undefined {
  return now === undefined || before === undefined ? undefined : now - before;
}
