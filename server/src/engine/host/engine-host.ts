/**
 * An engine in a process of its own, with the same `generate` as the engine itself. When the process dies, the requests
 * that it had started fail once with the cause; the others move to the next process. A new process starts after a delay
 * that grows with every failure. It knows no model and no Triton.
 */
import { backoffMs } from "../../core/backoff.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import type { EngineInfo, EngineSpec } from "../engine-spec.ts";
import { type EngineStats, ZERO_STATS } from "../engine-stats.ts";
import { ChunkQueue } from "../plan/chunk-queue.ts";
import { checkRequest } from "../request/check-request.ts";
import type { GeneratedChunk, GenerateRequest, Generator } from "../request/generate.ts";
import type { GenerationObserver } from "../request/generation-observer.ts";
import { type FrameReader, FrameWriter } from "./frame.ts";
import { hostEntry } from "./host-entry.ts";
import { HostProcess, type HostProcessEvents } from "./host-process.ts";
import { CANCEL, CLOSE, LOAD, LOAD_FAILED, READY, STEP, SUBMIT, writeRequest } from "./messages.ts";
import { PendingRequest } from "./pending-request.ts";
import type { SpareHost } from "./spare-host.ts";
import { deliverReport } from "./step-report.ts";

export interface EngineHostOptions {
  /** For messages: the instance's name. */
  readonly name: string;
  readonly spec: EngineSpec;
  readonly log: Logger;
  readonly observer?: GenerationObserver;
  /** The program of the host role; this program's own by default. */
  readonly entry?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Taken for the first process of an engine without `entry` and `env`. */
  readonly spare?: SpareHost | undefined;
  readonly loadTimeoutMs?: number;
  /** Silence of a host that has work, after which it counts as hung. */
  readonly stepTimeoutMs?: number;
  readonly firstBackoffMs?: number;
  /** Requests wait for a new host that is expected within this time; else they are refused. */
  readonly maxWaitMs?: number;
}

const DEFAULTS = { loadTimeoutMs: 600_000, stepTimeoutMs: 300_000, firstBackoffMs: 250, maxWaitMs: 30_000 };
const MAX_BACKOFF_MS = 30_000;
/** A host that ran this long was sound: the next failure starts again with the first pause. One that has served has none. */
const SOUND_AFTER_MS = 60_000;
const CLOSE_TIMEOUT_MS = 10_000;
/** Length of the last line of a process that died while it loaded a model, in the message. */
const MAX_ERROR_CHARS = 500;
/** Hosts that may die under a request before it started; then it is suspected itself and fails. */
const MAX_ATTEMPTS = 3;

type State = "starting" | "ready" | "pausing" | "closed";

export class EngineHost implements Generator {
  readonly #options: Required<Omit<EngineHostOptions, "env" | "entry" | "observer" | "spare">> & EngineHostOptions;
  readonly #entry: string;
  readonly #pending = new Map<number, PendingRequest>();
  readonly #writer = new FrameWriter();
  #state: State = "starting";
  #process: HostProcess | undefined;
  #info: EngineInfo | undefined;
  #stats: EngineStats = { ...ZERO_STATS };
  #blocks = "";
  #nextId = 1;
  #numFailures = 0;
  /** The present process has ended a request. */
  #hasServed = false;
  #readySinceMs = 0;
  #spawnedMs = 0;
  /** The last load took this long. */
  #loadMs = 0;
  /** Before the next host is started. */
  #pauseMs = 0;
  #lastSignMs = 0;
  readonly #arrival = { nowMs: 0 };
  /** Last line that the process wrote to its standard error. */
  #lastError = "";
  /** Why a process that is about to end was killed, when the exit status alone would not say. */
  #killedBecause: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  #loaded: { resolve: (info: EngineInfo) => void; reject: (error: ServerError) => void } | undefined;

  private constructor(options: EngineHostOptions) {
    this.#options = { ...DEFAULTS, ...options };
    this.#entry = options.entry ?? hostEntry();
  }

  /** Starts a host and waits until its engine is loaded. @throws ServerError with the reason when it is not */
  static async start(options: EngineHostOptions): Promise<EngineHost> {
    const host = new EngineHost(options);
    const loaded = new Promise<EngineInfo>((resolve, reject) => {
      host.#loaded = { resolve, reject };
    });
    host.#spawn();
    try {
      await loaded;
    } catch (error) {
      await host.close();
      throw error;
    }
    host.#watchdog = setInterval(() => host.#checkProgress(), Math.min(1000, host.#options.stepTimeoutMs / 2));
    host.#watchdog.unref();
    return host;
  }

  get info(): EngineInfo {
    if (this.#info === undefined) throw new Error("engine host: info is known once it has started");
    return this.#info;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  isReady(): boolean {
    return this.#state === "ready";
  }

  /** As of the last step; zeros while there is no engine. */
  stats(): Readonly<EngineStats> {
    return this.#stats;
  }

  /** The KV cache of a second ago, a letter for each block or for some neighbours; "" before the first request. */
  get blocks(): string {
    return this.#blocks;
  }

  generate(request: GenerateRequest): AsyncIterable<GeneratedChunk> {
    const queue = new ChunkQueue(request.logProbs, request.signal);
    try {
      this.#accept(request, queue);
    } catch (error) {
      queue.failed(ServerError.from(error));
    }
    return queue;
  }

  /** Fails the running requests, ends the process and waits for its exit. */
  async close(): Promise<void> {
    this.#state = "closed";
    clearTimeout(this.#timer);
    clearInterval(this.#watchdog);
    const host = this.#process;
    host?.send(this.#frame(CLOSE));
    await host?.ended(this.#info === undefined ? 0 : CLOSE_TIMEOUT_MS);
    this.#failAll(new ServerError("unavailable", `engine host of '${this.#options.name}' is closed`));
  }

  #accept(request: GenerateRequest, queue: ChunkQueue): void {
    if (this.#state !== "ready" && !this.#isWorthWaiting()) {
      throw new ServerError(
        "unavailable",
        `engine host of '${this.#options.name}' is not ready: it is being restarted`,
      );
    }
    checkRequest(request, this.info);
    const id = this.#nextId++;
    const pending = new PendingRequest(
      request,
      queue,
      () => this.#pending.delete(id),
      this.#arrival,
      this.#options.observer,
    );
    if (request.signal?.aborted === true) {
      pending.endUnused();
      return;
    }
    if (this.#pending.size === 0) this.#lastSignMs = performance.now();
    this.#pending.set(id, pending);
    queue.onCancel(() => this.#cancel(id, pending));
    if (this.#state === "ready") this.#submit(id, pending); // else the next host gets it
  }

  #isWorthWaiting(): boolean {
    if (this.#state === "closed" || this.#info === undefined) return false;
    return this.#pauseMs + this.#loadMs <= this.#options.maxWaitMs;
  }

  #submit(id: number, pending: PendingRequest): void {
    this.#writer.begin(SUBMIT);
    this.#writer.int(id);
    writeRequest(this.#writer, pending.request);
    pending.attempts += 1;
    this.#process?.send(this.#writer.end());
  }

  #cancel(id: number, pending: PendingRequest): void {
    pending.isCancelled = true;
    if (this.#state === "ready") this.#process?.send(this.#frame(CANCEL, id));
    else if (this.#pending.has(id)) pending.endUnused(); // it waits for the next host, which need not hear of it
  }

  #spawn(): void {
    this.#state = "starting";
    this.#spawnedMs = performance.now();
    this.#killedBecause = undefined;
    this.#lastError = "";
    const { log, name, env, spec, loadTimeoutMs } = this.#options;
    const events: HostProcessEvents = {
      onFrame: (frame) => this.#onFrame(frame),
      onOutput: (line, isError) => {
        if (isError) this.#lastError = line;
        log[isError ? "warn" : "info"]("engine_host", `${name}: ${line}`);
      },
      onExit: (how) => this.#onExit(how),
    };
    const host =
      this.#takeSpare(events) ?? new HostProcess({ entry: this.#entry, ...(env === undefined ? {} : { env }) }, events);
    this.#process = host;
    this.#writer.begin(LOAD);
    this.#writer.text(JSON.stringify(spec));
    host.send(this.#writer.end());
    this.#timer = setTimeout(() => this.#kill(`loading took more than ${loadTimeoutMs / 1000} s`), loadTimeoutMs);
  }

  #takeSpare(events: HostProcessEvents): HostProcess | undefined {
    const { entry, env, spare } = this.#options;
    return entry === undefined && env === undefined ? spare?.take(events) : undefined;
  }

  #kill(because: string): void {
    this.#killedBecause = because;
    this.#process?.kill();
  }

  #onFrame(frame: FrameReader): void {
    this.#lastSignMs = performance.now();
    this.#arrival.nowMs = this.#lastSignMs;
    switch (frame.kind) {
      case READY:
        this.#onReady(JSON.parse(frame.text()) as EngineInfo);
        return;
      case LOAD_FAILED: {
        const { code, message } = JSON.parse(frame.text()) as Pick<ServerError, "code" | "message">;
        this.#loaded?.reject(new ServerError(code, message));
        this.#kill(`the engine could not be loaded: ${message}`);
        return;
      }
      case STEP: {
        const { size } = this.#pending;
        const { stats, blocks } = deliverReport(frame, (id) => this.#pending.get(id));
        this.#stats = stats;
        if (blocks !== "") this.#blocks = blocks;
        this.#hasServed ||= this.#pending.size < size;
        return;
      }
      default:
        throw new Error(`a frame of unknown kind ${frame.kind}`);
    }
  }

  #onReady(info: EngineInfo): void {
    clearTimeout(this.#timer);
    if (this.#state === "closed") return;
    this.#info = info;
    this.#state = "ready";
    this.#readySinceMs = performance.now();
    this.#loadMs = this.#readySinceMs - this.#spawnedMs;
    this.#loaded?.resolve(info);
    this.#loaded = undefined;
    for (const [id, pending] of this.#pending) this.#submit(id, pending);
  }

  #onExit(how: string): void {
    clearTimeout(this.#timer);
    this.#process = undefined;
    const hasServed = this.#hasServed;
    this.#hasServed = false;
    this.#stats = { ...ZERO_STATS };
    this.#blocks = "";
    if (this.#state === "closed") return;
    const { name, log } = this.#options;
    const wasReady = this.#state === "ready";
    const cause = this.#killedBecause ?? how;
    const message = `engine host of '${name}' ended unexpectedly (${cause})`;
    log.error("engine_host", message);
    if (this.#loaded !== undefined) {
      const why = this.#lastError === "" ? "" : `: ${this.#lastError.slice(0, MAX_ERROR_CHARS)}`;
      this.#loaded.reject(new ServerError("internal", `${message} while loading${why}`));
      return;
    }
    const isSound = hasServed || (wasReady && performance.now() - this.#readySinceMs > SOUND_AFTER_MS);
    this.#numFailures = isSound ? 1 : this.#numFailures + 1;
    // One that was killed while it loaded says nothing about the next one; one that could not load does.
    const mayLoad = wasReady || (this.#killedBecause === undefined && this.#numFailures <= MAX_ATTEMPTS);
    this.#failStarted(message, mayLoad);
    const backoff = { firstMs: this.#options.firstBackoffMs, maxMs: MAX_BACKOFF_MS };
    this.#pauseMs = hasServed ? 0 : backoffMs(this.#numFailures, backoff);
    this.#state = "pausing";
    log.info("engine_host", `${name}: starting a new engine host in ${this.#pauseMs} ms`);
    this.#timer = setTimeout(() => this.#spawn(), this.#pauseMs);
  }

  /**
   * Started requests fail. The others wait for the next host, unless no host could be loaded or several died under
   * them.
   */
  #failStarted(message: string, mayLoad: boolean): void {
    for (const pending of [...this.#pending.values()]) {
      if (pending.isCancelled) {
        pending.endUnused();
        continue;
      }
      if (mayLoad && !pending.isStarted && pending.attempts < MAX_ATTEMPTS) continue;
      const state = pending.isStarted ? "while it served this request" : "before this request was started";
      pending.failed(new ServerError("internal", `${message} ${state}`, { reason: "BACKEND" }));
    }
  }

  #failAll(error: ServerError): void {
    for (const pending of [...this.#pending.values()]) pending.failed(error);
  }

  #checkProgress(): void {
    const { stepTimeoutMs } = this.#options;
    if (this.#state !== "ready" || this.#pending.size === 0) return;
    if (performance.now() - this.#lastSignMs < stepTimeoutMs) return;
    this.#kill(`no step ended within ${stepTimeoutMs / 1000} s`);
  }

  #frame(kind: number, ...values: number[]): Uint8Array {
    this.#writer.begin(kind);
    for (const value of values) this.#writer.int(value);
    return this.#writer.end();
  }
}

/** The host role of this very program: a source file under a loader, or its compiled form. */
