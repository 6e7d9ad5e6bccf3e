/**
 * The metrics page: families are registered once, series are read at each scrape. Source: Prometheus exposition format,
 * text version 0.0.4. Labels keep the given order. Knows no model and no HTTP.
 */
import { Turns } from "./turns.ts";

export type MetricType = "counter" | "gauge" | "histogram" | "summary";

export interface MetricSample {
  /** Suffix of the family's name: "_count", "_bucket"...; none for a plain value. */
  readonly suffix?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: MetricType;
  /** For the console alone: not on the page, which is for numbers. */
  readonly isHidden?: boolean;
  /** Called at each scrape. */
  collect(): Iterable<MetricSample>;
}

export class MetricRegistry {
  readonly #families = new Map<string, { head: string; type: MetricType; sources: Set<MetricFamily> }>();

  /**
   * Adds a source of series. Several sources may feed one family (instances of one backend); the first one sets the
   * help text.
   */
  register(family: MetricFamily): Disposable {
    let entry = this.#families.get(family.name);
    if (entry === undefined) {
      const head = `# HELP ${family.name} ${escapeHelp(family.help)}\n# TYPE ${family.name} ${family.type}\n`;
      entry = { head, type: family.type, sources: new Set() };
      this.#families.set(family.name, entry);
    }
    const { sources } = entry;
    sources.add(family);
    return {
      [Symbol.dispose]: () => {
        sources.delete(family);
        if (sources.size === 0) this.#families.delete(family.name);
      },
    };
  }

  /** Current series of one family; empty for an unregistered name. */
  *samples(name: string): Generator<MetricSample, void> {
    for (const source of this.#families.get(name)?.sources ?? []) yield* source.collect();
  }

  /** Names and types of all families, with or without series. */
  types(): ReadonlyMap<string, MetricType> {
    return new Map([...this.#families].map(([name, { type }]) => [name, type]));
  }

  /** The whole page at once. As with prometheus-cpp, a family without series is not on it. */
  render(): string {
    const pieces = this.#pieces();
    let piece = pieces.next();
    while (piece.done !== true) piece = pieces.next();
    return piece.value;
  }

  /** The same over several turns of the event loop: the page of a thousand models has a megabyte. */
  async page(): Promise<string> {
    const turns = new Turns();
    const pieces = this.#pieces();
    let piece = pieces.next();
    while (piece.done !== true) {
      if (turns.isOver) await turns.next();
      piece = pieces.next();
    }
    return piece.value;
  }

  /** Pauses where the page may wait: buckets, sum and count of a histogram belong to one moment. */
  *#pieces(): Generator<undefined, string> {
    let page = "";
    for (const [name, { head, type, sources }] of this.#families) {
      const isPlain = type === "counter" || type === "gauge";
      let series = "";
      for (const source of sources) {
        if (source.isHidden !== true) series += yield* seriesOf(name, source, isPlain);
      }
      if (series !== "") page += head + series;
    }
    return page;
  }
}

function* seriesOf(name: string, source: MetricFamily, pausesWithin: boolean): Generator<undefined, string> {
  let series = "";
  for (const { suffix = "", labels, value } of source.collect()) {
    series += `${name}${suffix}${renderLabels(labels)} ${renderValue(value)}\n`;
    if (pausesWithin) yield;
  }
  yield;
  return series;
}

function renderLabels(labels: Readonly<Record<string, string>>): string {
  const parts = Object.entries(labels).map(([key, value]) => `${key}="${escapeLabel(value)}"`);
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

/** Special values as prometheus-cpp prints them: "Nan", "+Inf" and "-Inf". */
function renderValue(value: number): string {
  if (Number.isNaN(value)) return "Nan";
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}
