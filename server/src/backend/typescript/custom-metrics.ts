/**
 * Custom metrics of a model on the server's page. Threads write numbers into shared memory, which is read at scrape
 * time; counters of ended threads stay.
 */
import type { MetricFamily, MetricSample, MetricType } from "../../observe/metrics.ts";
import type { BackendMetrics } from "../backend.ts";
import type { SeriesMessage } from "./messages.ts";

/** A model that makes up labels without end must not fill the server's memory. */
const MAX_SERIES = 10_000;

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** One for each thread that writes it. */
  readonly sources: { readonly owner: object; readonly cells: Float64Array }[];
}

interface Family {
  readonly type: MetricType;
  readonly buckets: readonly number[];
  readonly series: Map<string, Series>;
  readonly registration: Disposable;
}

export class CustomMetrics implements Disposable {
  readonly #metrics: BackendMetrics;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #families = new Map<string, Family>();
  #numSeries = 0;

  constructor(metrics: BackendMetrics, model: string, version: number) {
    this.#metrics = metrics;
    this.#labels = { model, version: String(version) };
  }

  /** `owner`: the thread that writes. False when there are too many series, or another kind of metric has the name. */
  add(owner: object, { name, help, metric, labels, buckets, cells }: SeriesMessage): boolean {
    const family = this.#families.get(name) ?? this.#register(name, help, metric, buckets);
    if (family.type !== metric || String(family.buckets) !== String(buckets)) return false;
    const key = JSON.stringify(Object.entries(labels).sort());
    let series = family.series.get(key);
    if (series === undefined) {
      if (this.#numSeries >= MAX_SERIES) return false;
      this.#numSeries += 1;
      series = { labels: { ...this.#labels, ...labels }, sources: [] };
      family.series.set(key, series);
    }
    series.sources.push({ owner, cells: new Float64Array(cells) });
    return true;
  }

  /** A thread has ended: its gauges mean nothing any more, what it counted has happened. */
  drop(owner: object): void {
    for (const { type, series } of this.#families.values()) {
      for (const { sources } of series.values()) merge(sources, owner, type === "gauge");
    }
  }

  [Symbol.dispose](): void {
    for (const { registration } of this.#families.values()) registration[Symbol.dispose]();
    this.#families.clear();
  }

  #register(name: string, help: string, type: MetricType, buckets: readonly number[]): Family {
    const series = new Map<string, Series>();
    const source: MetricFamily = { name, help, type, collect: () => samples({ type, buckets, series }) };
    const family = { type, buckets, series, registration: this.#metrics.register(source) };
    this.#families.set(name, family);
    return family;
  }
}

/** Keeps one array for all the threads that were, so that restarts do not add up. */
function merge(sources: Series["sources"], owner: object, isGauge: boolean): void {
  const index = sources.findIndex((source) => source.owner === owner);
  const [ended] = index < 0 ? [] : sources.splice(index, 1);
  if (ended === undefined || isGauge) return;
  const past = sources.find((source) => source.owner === PAST);
  const cells = Float64Array.from(ended.cells, (value, at) => value + (past?.cells[at] ?? 0));
  if (past !== undefined) sources.splice(sources.indexOf(past), 1);
  sources.push({ owner: PAST, cells });
}

const PAST: object = Object.freeze({});

function* samples({ type, buckets, series }: Omit<Family, "registration">): Generator<MetricSample> {
  for (const { labels, sources } of series.values()) {
    if (sources.length === 0) continue;
    const totals = sumOf(sources);
    if (type !== "histogram") {
      yield { labels, value: totals[0] ?? 0 };
      continue;
    }
    // cells: a count for each bucket, one for what is above them all, the sum
    let count = 0;
    for (const [index, bound] of [...buckets, Number.POSITIVE_INFINITY].entries()) {
      count += totals[index] ?? 0;
      yield { suffix: "_bucket", labels: { ...labels, le: boundText(bound) }, value: count };
    }
    yield { suffix: "_sum", labels, value: totals[buckets.length + 1] ?? 0 };
    yield { suffix: "_count", labels, value: count };
  }
}

function sumOf(sources: Series["sources"]): Float64Array {
  const totals = new Float64Array(sources[0]?.cells.length ?? 0);
  for (const { cells } of sources) {
    for (const [index, value] of cells.entries()) totals[index] = (totals[index] ?? 0) + value;
  }
  return totals;
}

function boundText(bound: number): string {
  return bound === Number.POSITIVE_INFINITY ? "+Inf" : String(bound);
}
