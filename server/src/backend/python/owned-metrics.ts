/** Metrics that one process holds, by the numbers that it gave them. They are released with the process. */
import { ServerError } from "../../core/server-error.ts";
import type { BackendMetrics } from "../backend.ts";
import type { CustomFamily, CustomMetricKind, CustomMetrics, CustomSeries } from "./custom-metrics.ts";
import type { FrameReader } from "./wire-codec.ts";

const KINDS: readonly CustomMetricKind[] = ["counter", "gauge", "histogram"];

export class OwnedMetrics implements Disposable {
  readonly #all: CustomMetrics;
  readonly #page: BackendMetrics;
  readonly #families = new Map<number, CustomFamily>();
  readonly #series = new Map<number, CustomSeries>();

  constructor(all: CustomMetrics, page: BackendMetrics) {
    this.#all = all;
    this.#page = page;
  }

  /** @throws ServerError when there cannot be such a family */
  newFamily(reader: FrameReader): void {
    const number = reader.u32();
    const name = reader.string();
    const help = reader.string();
    const kind = KINDS[reader.u8()];
    if (kind === undefined) throw new RangeError(`metric family '${name}' is of an unknown kind`);
    this.#families.set(number, this.#all.addFamily(name, help, kind, this.#page));
  }

  /** @throws ServerError when there cannot be such a metric */
  newMetric(reader: FrameReader): void {
    const number = reader.u32();
    const family = this.#families.get(reader.u32());
    const labels = new Map(reader.list((): [string, string] => [reader.string(), reader.string()]));
    const bounds = reader.list(() => reader.f64());
    if (family === undefined) throw new ServerError("not_found", "the metric's family does not exist");
    this.#series.set(number, this.#all.addSeries(family, labels, bounds));
  }

  dropFamily(number: number): void {
    const family = this.#families.get(number);
    if (family !== undefined && this.#families.delete(number)) this.#all.dropFamily(family);
  }

  dropMetric(number: number): void {
    const series = this.#series.get(number);
    if (series !== undefined && this.#series.delete(number)) this.#all.dropSeries(series);
  }

  /** @throws ServerError when there is no such metric */
  series(number: number): CustomSeries {
    const series = this.#series.get(number);
    if (series === undefined) throw new ServerError("not_found", "the metric does not exist");
    return series;
  }

  [Symbol.dispose](): void {
    for (const number of [...this.#series.keys()]) this.dropMetric(number);
    for (const number of [...this.#families.keys()]) this.dropFamily(number);
  }
}
