/**
 * Metric families that Python models make: shared by name and labels among all models and instances, as in one program, and
 * gone when the last owner has let go of them. Knows no process and no message.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { Histogram } from "../../observe/histogram.ts";
import type { MetricSample, MetricType } from "../../observe/metrics.ts";
import type { BackendMetrics } from "../backend.ts";

const FAMILY_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

export type CustomMetricKind = Extract<MetricType, "counter" | "gauge" | "histogram">;

/** One series, and how many hold it. */
export class CustomSeries {
  readonly family: CustomFamily;
  readonly key: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly histogram: Histogram | undefined;
  value = 0;
  numOwners = 0;

  constructor(family: CustomFamily, key: string, labels: ReadonlyMap<string, string>, bounds: readonly number[]) {
    this.family = family;
    this.key = key;
    this.labels = Object.fromEntries(labels);
    this.histogram = family.kind === "histogram" ? new Histogram(bounds) : undefined;
  }
}

export interface CustomFamily {
  readonly name: string;
  readonly kind: CustomMetricKind;
  readonly series: Map<string, CustomSeries>;
  readonly registration: Disposable;
  numOwners: number;
}

export class CustomMetrics {
  readonly #families = new Map<string, CustomFamily>();

  /** @throws ServerError when the name is none, or belongs to a family of another kind */
  addFamily(name: string, help: string, kind: CustomMetricKind, page: BackendMetrics): CustomFamily {
    if (!FAMILY_NAME.test(name)) throw invalidArgument(`metric family name '${name}' must match ${FAMILY_NAME.source}`);
    const known = this.#families.get(name) ?? this.#create(name, help, kind, page);
    if (known.kind !== kind) {
      throw new ServerError("already_exists", `metric family '${name}' exists and is a ${known.kind}, not a ${kind}`);
    }
    known.numOwners += 1;
    return known;
  }

  /** @throws ServerError when labels or bounds are not what the page can show */
  addSeries(family: CustomFamily, labels: ReadonlyMap<string, string>, bounds: readonly number[]): CustomSeries {
    checkSeries(family, labels, bounds);
    const key = JSON.stringify([...labels].sort(([a], [b]) => (a < b ? -1 : 1)));
    const series = family.series.get(key) ?? new CustomSeries(family, key, labels, bounds);
    family.series.set(key, series);
    series.numOwners += 1;
    family.numOwners += 1;
    return series;
  }

  dropSeries(series: CustomSeries): void {
    series.numOwners -= 1;
    if (series.numOwners === 0) series.family.series.delete(series.key);
    this.dropFamily(series.family);
  }

  dropFamily(family: CustomFamily): void {
    family.numOwners -= 1;
    if (family.numOwners > 0) return;
    this.#families.delete(family.name);
    family.registration[Symbol.dispose]();
  }

  #create(name: string, help: string, kind: CustomMetricKind, page: BackendMetrics): CustomFamily {
    const series = new Map<string, CustomSeries>();
    const registration = page.register({ name, help, type: kind, collect: () => samples(series) });
    const family = { name, kind, series, registration, numOwners: 0 };
    this.#families.set(name, family);
    return family;
  }
}

function checkSeries(family: CustomFamily, labels: ReadonlyMap<string, string>, bounds: readonly number[]): void {
  for (const name of labels.keys()) {
    if (!LABEL_NAME.test(name))
      throw invalidArgument(`label '${name}' of metric '${family.name}' must match ${LABEL_NAME.source}`);
  }
  const isAscending = bounds.every((bound, at) => at === 0 || bound > (bounds[at - 1] ?? 0));
  if (!isAscending) throw invalidArgument(`buckets of metric '${family.name}' must ascend, got [${bounds.join(",")}]`);
}

function* samples(series: ReadonlyMap<string, CustomSeries>): Iterable<MetricSample> {
  for (const { labels, histogram, value } of series.values()) {
    if (histogram === undefined) yield { labels, value };
    else yield* histogram.samples(labels);
  }
}
