/**
 * The traces of a server: global and per-model settings, sampling, and export to a file or collector (Triton
 * documentation, "Trace").
 */

import { randomBytes } from "node:crypto";
import type { Environment } from "../../core/environment.ts";
import type { RequestTrace, TraceChanges, TraceHeaders, TraceSettings, Tracing } from "../../core/request-trace.ts";
import type { Logger } from "../log.ts";
import { OtlpExporter } from "./otlp/otlp-exporter.ts";
import { parseOtlpSettings, shownOtlpSettings } from "./otlp/otlp-settings.ts";
import { type OtlpTree, otlpSpans } from "./otlp/otlp-spans.ts";
import type { RecentTraces } from "./recent-traces.ts";
import { TraceBatch } from "./trace-batch.ts";
import { createTraceClock } from "./trace-clock.ts";
import { TraceFile } from "./trace-file.ts";
import { traceFileText } from "./trace-file-text.ts";
import { readTraceParent, type TraceParent, traceContextJson } from "./trace-parent.ts";
import { createTraceTree } from "./trace-record.ts";
import {
  changedOwn,
  expectUsable,
  hasOwn,
  type OwnSettings,
  reasonAgainst,
  resolveSettings,
  TraceSampler,
} from "./trace-setting.ts";

/** Settings at server start. */
export interface TraceStart extends Omit<TraceSettings, "modeSettings"> {
  /** Settings of mode opentelemetry, unparsed. */
  readonly opentelemetry: readonly (readonly [key: string, value: string])[];
}

export interface TracerOptions {
  readonly start: TraceStart;
  readonly log: Logger;
  readonly env: Environment;
  /** Gets finished traces while somebody watches them; absent: nobody can. */
  readonly recent?: RecentTraces | undefined;
}

/** Active settings, of the server or one model. */
interface Scope {
  readonly own: OwnSettings;
  readonly sampler: TraceSampler;
  readonly batch: TraceBatch;
}

const SERVER = "";

export class Tracer implements Tracing {
  isOn = false;
  readonly #start: TraceSettings;
  readonly #file: TraceFile;
  readonly #exporter: OtlpExporter | undefined;
  readonly #clock = createTraceClock();
  readonly #scopes = new Map<string, Scope>();
  readonly #recent: RecentTraces | undefined;
  #lastId = 0;

  /** @throws ServerError for invalid settings of mode opentelemetry */
  constructor({ start, log, env, recent }: TracerOptions) {
    this.#recent = recent;
    if (recent !== undefined) recent.onWatch = () => this.#look();
    const { opentelemetry, ...written } = start;
    const settings = { ...written, rate: start.rate >>> 0, logFrequency: start.logFrequency >>> 0 }; // unsigned, as in Triton
    const otlp = start.mode === "opentelemetry" ? parseOtlpSettings(opentelemetry, env) : undefined;
    this.#start = { ...settings, modeSettings: otlp === undefined ? [] : shownOtlpSettings(otlp) };
    this.#exporter = otlp === undefined ? undefined : new OtlpExporter({ settings: otlp, log });
    this.#file = new TraceFile(start.file, log);
    this.#replace(SERVER, {}, this.#start);
    for (const warning of [...startWarnings(this.#start), ...(otlp?.warnings ?? [])]) log.warn("tracer", warning);
  }

  settings(model: string): TraceSettings {
    return this.#scopeOf(model).sampler.settings;
  }

  update(model: string, changes: TraceChanges): TraceSettings {
    const own = changedOwn(this.#scopes.get(model)?.own ?? {}, changes);
    const plan = model === SERVER ? this.#planAll(own) : this.#planModel(model, own, this.settings(SERVER));
    for (const { settings } of plan) expectUsable(settings);
    for (const { name, own: fields, settings } of plan) this.#replace(name, fields, settings);
    if (model !== SERVER && !hasOwn(own)) this.#remove(model);
    this.#look();
    return this.settings(model);
  }

  start(modelName: string, headers: TraceHeaders): RequestTrace | undefined {
    const scope = this.#scopeOf(modelName);
    const parent = this.#exporter === undefined ? undefined : readTraceParent(headers);
    if (!scope.sampler.sample(parent !== undefined)) return this.#startForReader(modelName);
    if (!scope.sampler.isOn) this.#look();
    return this.#exporter === undefined
      ? this.#startForFile(modelName, scope)
      : this.#startForCollector(modelName, this.#exporter, parent);
  }

  /** Writes and sends the remaining traces. Never rejects. */
  async close(): Promise<void> {
    this.isOn = false;
    for (const { batch } of this.#scopes.values()) batch.retire();
    await Promise.all([this.#file.close(), this.#exporter?.close()]);
  }

  #startForFile(modelName: string, { sampler, batch }: Scope): RequestTrace {
    const { levels } = sampler.settings;
    batch.begun();
    return createTraceTree(modelName, {
      nextId: this.#nextId,
      keepsMoments: levels.includes("TIMESTAMPS"),
      keepsTensors: levels.includes("TENSORS"),
      contextOf: () => undefined,
      onComplete: (nodes) => {
        batch.completed(traceFileText(nodes, this.#clock));
        this.#recent?.add(nodes);
      },
    });
  }

  /** A trace that stays in memory: no setting samples the request, and somebody watches. */
  #startForReader(modelName: string): RequestTrace | undefined {
    const recent = this.#recent;
    if (recent?.take() !== true) {
      if (recent !== undefined && !recent.isWatched) this.#look();
      return undefined;
    }
    return createTraceTree(modelName, {
      nextId: this.#nextId,
      keepsMoments: true,
      keepsTensors: false,
      contextOf: () => undefined,
      onComplete: (nodes) => recent.add(nodes),
    });
  }

  #startForCollector(modelName: string, exporter: OtlpExporter, parent: TraceParent | undefined): RequestTrace {
    const tree = createOtlpTree(parent);
    return createTraceTree(modelName, {
      nextId: this.#nextId,
      keepsMoments: true,
      keepsTensors: false,
      contextOf: (id) =>
        traceContextJson({ traceId: tree.traceId, spanId: tree.spanIdOf(id), state: parent?.state ?? "" }),
      onComplete: (nodes) => {
        exporter.add(otlpSpans(nodes, tree, this.#clock));
        this.#recent?.add(nodes);
      },
    });
  }

  readonly #nextId = (): number => {
    this.#lastId += 1;
    return this.#lastId;
  };

  #scopeOf(model: string): Scope {
    const scope = this.#scopes.get(model) ?? this.#scopes.get(SERVER);
    if (scope === undefined) throw new Error("the server has no trace settings");
    return scope;
  }

  /** A server-wide change applies to every model that inherits a field. */
  #planAll(own: OwnSettings): Plan[] {
    const settings = resolveSettings(this.#start, own);
    const models = [...this.#scopes].filter(([name]) => name !== SERVER);
    return [
      { name: SERVER, own, settings },
      ...models.flatMap(([name, scope]) => this.#planModel(name, scope.own, settings)),
    ];
  }

  #planModel(name: string, own: OwnSettings, behind: TraceSettings): Plan[] {
    return hasOwn(own) ? [{ name, own, settings: resolveSettings(behind, own) }] : [];
  }

  #replace(name: string, own: OwnSettings, settings: TraceSettings): void {
    this.#remove(name);
    const sampler = new TraceSampler(settings);
    this.#scopes.set(name, { own, sampler, batch: new TraceBatch(this.#file, sampler) });
    this.#look();
  }

  #remove(name: string): void {
    this.#scopes.get(name)?.batch.retire();
    this.#scopes.delete(name);
  }

  #look(): void {
    this.isOn = this.#recent?.isWatched === true || [...this.#scopes.values()].some(({ sampler }) => sampler.isOn);
  }
}

/** Warns about flags without effect: a server start may report that, a request may not. */
function startWarnings(start: TraceSettings): string[] {
  const { levels, mode } = start;
  const reason = levels.length === 0 ? undefined : reasonAgainst(start);
  return [
    ...(reason === undefined ? [] : [`--trace-config: no request is traced: ${reason}`]),
    ...(mode === "opentelemetry" && levels.includes("TENSORS")
      ? ["--trace-config: level TENSORS shows no tensors in mode opentelemetry"]
      : []),
  ];
}

interface Plan {
  readonly name: string;
  readonly own: OwnSettings;
  readonly settings: TraceSettings;
}

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;

function createOtlpTree(parent: TraceParent | undefined): OtlpTree {
  const spanIds = new Map<number, string>();
  const newSpanId = (): string => randomBytes(SPAN_ID_BYTES).toString("hex");
  return {
    traceId: parent?.traceId ?? randomBytes(TRACE_ID_BYTES).toString("hex"),
    parent,
    rootSpanId: newSpanId(),
    newSpanId,
    spanIdOf(id) {
      const known = spanIds.get(id);
      if (known !== undefined) return known;
      const made = newSpanId();
      spanIds.set(id, made);
      return made;
    },
  };
}
