/** `--model-load-gpu-limit`: no instance is created on a GPU whose memory use exceeds its share. Knows no driver. */
import { ServerError } from "../../core/server-error.ts";

export class GpuLimits {
  readonly #limits: ReadonlyMap<number, number>;
  readonly #usedShare: (device: number) => Promise<number | undefined>;

  /** By device: the limit as a share of its memory, 0 to 1. `usedShare` is undefined when unknown. */
  constructor(limits: ReadonlyMap<number, number>, usedShare: (device: number) => Promise<number | undefined>) {
    this.#limits = limits;
    this.#usedShare = usedShare;
  }

  /** @throws ServerError when one of the devices exceeds its limit */
  async expectRoom(model: string, devices: Iterable<number>): Promise<void> {
    for (const device of new Set(devices)) {
      const limit = this.#limits.get(device);
      if (limit === undefined || ((await this.#usedShare(device)) ?? 0) <= limit) continue;
      const text = `unable to load model '${model}', memory limit set for GPU ${device} has exceeded, model loading is rejected.`;
      throw new ServerError("unavailable", text);
    }
  }
}
