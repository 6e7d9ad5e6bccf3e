/** All that the console's routes ask of the server beyond `ModelServer`. The composition root implements it. Source: own design. */
import type { ModelConfig } from "../../core/model-config.ts";
import type { LogRing } from "../../observe/log-ring.ts";
import type { MetricSample } from "../../observe/metrics.ts";
import type { RecentTraces } from "../../observe/trace/recent-traces.ts";
import type { ConsoleConfig, ConsoleConfigProblem, ConsoleFinding, ConsoleLatency } from "./console-types.ts";

/** A file of the page, as the package of the console has it. */
export interface PageFile {
  /** Below the page's folder, with `/`. */
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly gzipped: Uint8Array;
}

/** Contract of the package's module. */
export interface ConsoleModule {
  /** Resolves with all files of the built page. @throws Error when the page was not built */
  readPage(): Promise<readonly PageFile[]>;
}

export interface HostedVersion {
  readonly name: string;
  readonly version: string;
  readonly config: ModelConfig;
  readonly numInstances: number;
  readonly inFlight: number;
  readonly pending: number;
  readonly loadSeconds: number;
  latency(): ConsoleLatency | undefined;
}

/** Configurations that are edited. All but `check` and `read` need explicit model control. @throws ServerError */
export interface ConfigEditor {
  read(model: string): ConsoleConfig;
  check(model: string, text: string): readonly ConsoleConfigProblem[];
  /** Loads a copy of the model with that configuration, beside it. Resolves with the name of the copy. */
  tryOut(model: string, text: string): Promise<string>;
  endTrial(model: string): Promise<void>;
  /** Loads the model with that configuration; its file stays as it is. */
  apply(model: string, text: string): Promise<void>;
  /** Loads the model from its file. */
  rollBack(model: string): Promise<void>;
  /** Model of which `name` is the copy on trial. */
  originalOf(name: string): string | undefined;
}

export interface ConsoleHost {
  readonly logs: LogRing;
  readonly traces: RecentTraces;
  readonly editor: ConfigEditor;
  /** Every ready version. */
  versions(): readonly HostedVersion[];
  samples(family: string): Iterable<MetricSample>;
  /** @throws MissingPackageError without the package that examines models */
  diagnose(model: string): Promise<readonly ConsoleFinding[]>;
  /** @throws MissingPackageError without the package of the page */
  page(): Promise<readonly PageFile[]>;
}
