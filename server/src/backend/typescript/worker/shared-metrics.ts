/** `context.metrics`: numbers in shared memory, one message per series and none per change. */
import type * as Api from "../model-api.ts";
import type { ThreadLink } from "./thread-link.ts";

type Kind = "counter" | "gauge" | "histogram";

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const RESERVED_LABELS: ReadonlySet<string> = new Set(["model", "version", "le"]);

export class SharedMetrics implements Api.Metrics {
  readonly #link: ThreadLink;
  readonly #cells = new Map<string, Float64Array>();

  constructor(link: ThreadLink) {
    this.#link = link;
  }

  counter(name: string, help: string): ReturnType<Api.Metrics["counter"]> {
    expectName(name);
    return {
      increment: (by = 1, labels = {}) => {
        if (!(by >= 0)) throw new RangeError(`counter ${name} only grows: increment by 0 or more, got ${by}`);
        add(this.#series("counter", name, help, [], labels), 0, by);
      },
    };
  }

  gauge(name: string, help: string): ReturnType<Api.Metrics["gauge"]> {
    expectName(name);
    return {
      set: (value, labels = {}) => {
        this.#series("gauge", name, help, [], labels)[0] = value;
      },
    };
  }

  histogram(name: string, help: string, buckets: readonly number[]): ReturnType<Api.Metrics["histogram"]> {
    expectName(name);
    if (buckets.some((bound, index) => index > 0 && !(bound > (buckets[index - 1] ?? 0)))) {
      throw new RangeError(`buckets of histogram ${name} must be ascending, got ${buckets.join(", ")}`);
    }
    return {
      observe: (value, labels = {}) => {
        const cells = this.#series("histogram", name, help, buckets, labels);
        const index = buckets.findIndex((bound) => value <= bound);
        add(cells, index < 0 ? buckets.length : index, 1);
        add(cells, buckets.length + 1, value);
      },
    };
  }

  #series(kind: Kind, name: string, help: string, buckets: readonly number[], labels: Api.Labels): Float64Array {
    const key = `${name} ${JSON.stringify(Object.entries(labels).sort())}`;
    const known = this.#cells.get(key);
    if (known !== undefined) return known;
    for (const label of Object.keys(labels)) expectLabel(name, label);
    const length = kind === "histogram" ? buckets.length + 2 : 1;
    const memory = new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT);
    this.#link.post({ type: "series", name, help, metric: kind, labels: { ...labels }, buckets, cells: memory });
    const cells = new Float64Array(memory);
    this.#cells.set(key, cells);
    return cells;
  }
}

function add(cells: Float64Array, index: number, by: number): void {
  cells[index] = (cells[index] ?? 0) + by;
}

function expectName(name: string): void {
  if (!METRIC_NAME.test(name)) throw new RangeError(`'${name}' is no name of a metric: letters, digits and _ are`);
}

function expectLabel(metric: string, label: string): void {
  if (RESERVED_LABELS.has(label)) throw new RangeError(`label '${label}' of metric ${metric} is set by the server`);
  if (!LABEL_NAME.test(label)) throw new RangeError(`'${label}' is no name of a label of metric ${metric}`);
}
