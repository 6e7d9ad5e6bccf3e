/**
 * The host side of the protocol: builds the specified engine, feeds it the incoming requests, and reports once per
 * step. It ends when the server closes the socket.
 */
import type { Duplex } from "node:stream";
import { ServerError } from "../../core/server-error.ts";
import type { EngineServices } from "../engine-services.ts";
import type { EngineInfo, EngineSpec } from "../engine-spec.ts";
import { LlmEngine } from "../llm-engine.ts";
import type { Sequence } from "../request/sequence.ts";
import type { Drafter } from "../speculation/drafter.ts";
import type { StepRunner } from "../step-runner.ts";
import { type FrameReader, FrameSplitter, FrameWriter } from "./frame.ts";
import { loadServices } from "./load-services.ts";
import { CANCEL, CLOSE, LOAD, LOAD_FAILED, READY, readRequest, SUBMIT } from "./messages.ts";
import { StepReport } from "./step-report.ts";
import { warmEngine } from "./warm-engine.ts";

export interface EngineServerOptions {
  readonly socket: Duplex;
  readonly createRunner: (spec: EngineSpec) => Promise<StepRunner>;
  /** The draft model of that runner, when the specification names one. */
  readonly createDrafter?: (spec: EngineSpec, runner: StepRunner) => Promise<Drafter | undefined>;
  /** Ends the process; called once, after the last frame is written. */
  readonly exit: (code: number) => void;
  /** Ends the process at once: nothing is left to serve or to report to. */
  readonly serverGone: () => void;
}

/** Exit status of a host whose engine failed: the server logs it and starts another. */
const EXIT_ENGINE_FAILED = 70;

const BLOCKS_PERIOD_MS = 1000;

export function serveEngine(options: EngineServerOptions): void {
  const server = new EngineServer(options);
  const splitter = new FrameSplitter((frame) => server.onFrame(frame));
  options.socket.on("data", (bytes: Buffer) => splitter.push(bytes));
  options.socket.on("error", options.serverGone);
  options.socket.on("close", options.serverGone);
}

class EngineServer {
  readonly #options: EngineServerOptions;
  readonly #report = new StepReport();
  readonly #sequences = new Map<number, Sequence>();
  #engine: LlmEngine | undefined;
  #isReportDue = false;
  #blocksTimer: NodeJS.Timeout | undefined;

  constructor(options: EngineServerOptions) {
    this.#options = options;
  }

  onFrame(frame: FrameReader): void {
    switch (frame.kind) {
      case LOAD:
        this.#load(JSON.parse(frame.text()) as EngineSpec).catch((error: unknown) => this.#refuse(error));
        return;
      case SUBMIT:
        this.#submit(frame);
        return;
      case CANCEL: {
        const sequence = this.#sequences.get(frame.int());
        if (sequence !== undefined) this.#engine?.cancel(sequence);
        return;
      }
      case CLOSE:
        this.#close().catch((error: unknown) => this.#refuse(error));
        return;
      default:
        throw new Error(`engine host: a frame of unknown kind ${frame.kind}`);
    }
  }

  async #load(spec: EngineSpec): Promise<void> {
    const runner = await this.#options.createRunner(spec);
    const services = await this.#prepare(spec, runner).catch(async (error: unknown) => {
      await runner.close();
      throw error;
    });
    const engine = new LlmEngine(runner, spec.engine, () => this.#onTurn(), services);
    this.#engine = engine;
    const { vocabSize, hiddenSize, blockSize, numBlocks, hasAxes = false, eosTokenIds = [] } = runner;
    const { maxSequenceLength } = engine.limits;
    const sizes = { vocabSize, hiddenSize, blockSize, numBlocks, maxSequenceLength };
    const { encoder, startTokenIds, padTokenId, takesEmbeddings = true } = runner;
    const ofEncoder = { encoder, startTokenIds, padTokenId };
    const info: EngineInfo = { ...sizes, hasAxes, takesEmbeddings, eosTokenIds, ...ofEncoder };
    this.#send(READY, JSON.stringify(info));
    this.#onTurn(); // the figures of an engine that has not run yet
  }

  async #prepare(spec: EngineSpec, runner: StepRunner): Promise<EngineServices> {
    const services = await loadServices(spec, runner);
    if (spec.warmUpSeconds !== 0) {
      // Beside the steps: the guides' vocabulary is read in another thread. A CPU has its threads for the steps alone.
      const guides = spec.gpu === undefined ? undefined : services.guides?.warmUp?.();
      await Promise.all([warmEngine(runner, spec.engine), guides]);
    }
    return { ...services, drafter: await this.#options.createDrafter?.(spec, runner) };
  }

  /** A load that failed: the cause goes to the server, which decides what to do. */
  #refuse(error: unknown): void {
    const { message, code } =
      error instanceof ServerError ? error : { message: messageOf(error), code: "internal" as const };
    this.#send(LOAD_FAILED, JSON.stringify({ code, message }));
  }

  #submit(frame: FrameReader): void {
    const id = frame.int();
    const sink = this.#report.sink(id, () => this.#sequences.delete(id));
    try {
      if (this.#engine === undefined) throw new ServerError("unavailable", "the engine is not loaded");
      this.#sequences.set(id, this.#engine.submit(readRequest(frame), sink));
    } catch (error) {
      sink.failed(ServerError.from(error));
      this.#reportSoon();
    }
  }

  /** A refusal must leave even when no step follows; several share one frame. */
  #reportSoon(): void {
    if (this.#isReportDue) return;
    this.#isReportDue = true;
    setImmediate(() => {
      if (this.#isReportDue) this.#onTurn();
    });
  }

  #onTurn(): void {
    const engine = this.#engine;
    if (engine === undefined) return;
    this.#isReportDue = false;
    this.#blocksSoon(engine);
    this.#options.socket.write(this.#report.take(engine.stats()), () => {
      if (engine.failure !== undefined) this.#options.exit(EXIT_ENGINE_FAILED);
    });
  }

  /** The map of blocks is for people: at most one a second, and the last one tells how the engine came to rest. */
  #blocksSoon(engine: LlmEngine): void {
    this.#blocksTimer ??= setTimeout(() => {
      this.#blocksTimer = undefined;
      if (engine.failure === undefined) this.#options.socket.write(this.#report.take(engine.stats(), engine.blocks));
    }, BLOCKS_PERIOD_MS).unref();
  }

  async #close(): Promise<void> {
    clearTimeout(this.#blocksTimer);
    await this.#engine?.close();
    this.#options.exit(0);
  }

  #send(kind: number, text: string): void {
    const writer = new FrameWriter();
    writer.begin(kind);
    writer.text(text);
    this.#options.socket.write(writer.end());
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
