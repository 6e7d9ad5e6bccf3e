/**
 * The step loop: plan, run, sample, hand out. Requests join and leave between steps. It knows tokens only: no text, no
 * tensors, no protocol, and of the device only that it runs steps.
 */
import { ServerError } from "../core/server-error.ts";
import { nowNs } from "./clock.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { EngineServices } from "./engine-services.ts";
import { countIdle, countRequests, countStep, countTokens, type EngineStats, firstStats } from "./engine-stats.ts";
import { ChoosingSteps } from "./plan/choosing-steps.ts";
import { ChunkQueue } from "./plan/chunk-queue.ts";
import { LogitsBudget } from "./plan/logits-budget.ts";
import { type PartlyChosen, type SequenceRows, sequenceRows } from "./plan/sequence-rows.ts";
import { StepBatch } from "./plan/step-batch.ts";
import type { StepPlan } from "./plan/step-plan.ts";
import { StepPlanner } from "./plan/step-planner.ts";
import { StepsInFlight, type StepTakers } from "./plan/steps-in-flight.ts";
import { TokenStep } from "./plan/token-step.ts";
import { admitRequest, checkQueue } from "./request/admit-request.ts";
import { checkRequest, logitsBytes, type RequestLimits } from "./request/check-request.ts";
import type { FinishReason, GeneratedChunk, GenerateRequest, Generator } from "./request/generate.ts";
import { prepareSequence } from "./request/prepare-sequence.ts";
import { requestLimits } from "./request/request-limits.ts";
import type { Sequence, SequenceGroup, SequenceSink } from "./request/sequence.ts";
import { guidesReady } from "./sample/late-choices.ts";
import { RuleRows } from "./sample/rule-rows.ts";
import { gainsFromTables, givesOneRow, isFree } from "./sample/token-choices.ts";
import { createDrafters } from "./speculation/create-drafters.ts";
import type { Drafter } from "./speculation/drafter.ts";
import { verifyDrafts } from "./speculation/verify-drafts.ts";
import type { ChosenTokens, StepRunner } from "./step-runner.ts";

/** Called by the loop with everything of a step handed to the sinks, before the next one is waited for. Must not throw. */
export type TurnListener = () => void;

export class LlmEngine implements Generator {
  readonly limits: RequestLimits;
  readonly #runner: StepRunner;
  readonly #config: EngineConfig;
  readonly #planner: StepPlanner;
  readonly #batch: StepBatch;
  readonly #tokenStep: TokenStep;
  readonly #services: EngineServices;
  readonly #nowNs: () => number;
  /** Each drafts for the sequences that the drafters before it left without drafts. */
  readonly #drafters: readonly Drafter[];
  /** Sequences whose guide or adapter is being prepared: the planner does not know them yet. */
  readonly #preparing = new Set<Sequence>();
  readonly #logits = new LogitsBudget();
  /** Sequences that may give several rows of logits in a step: none is planned ahead while one does. */
  readonly #manyRowed = new Set<Sequence>();
  readonly #inFlight: StepsInFlight;
  readonly #choosing: ChoosingSteps;
  readonly #ruleRows: RuleRows;
  /** Beam searches whose beams have all offered their scores in this step. */
  readonly #complete: SequenceGroup[] = [];
  readonly #stats: EngineStats;
  readonly #onTurn: TurnListener;
  #loop: Promise<void> = Promise.resolve();
  #isRunning = false;
  /** Why the engine takes no more requests. */
  #closed: ServerError | undefined;
  #hasCancelled = false;

  constructor(
    runner: StepRunner,
    config: EngineConfig,
    onTurn: TurnListener = () => undefined,
    services: EngineServices = {},
  ) {
    const { blockSize, numBlocks, vocabSize } = runner;
    this.#runner = runner;
    this.#config = config;
    const prefixReuse = config.prefixReuse && runner.reusesPrefixes !== false;
    const rules = { ...config, prefixReuse, blockSize, window: runner.window };
    this.#planner = new StepPlanner({
      ...rules,
      numBlocks,
      numHostBlocks: runner.numHostBlocks ?? 0,
      numStates: runner.numStates,
      numSnapshots: prefixReuse ? runner.numSnapshots : 0,
    });
    this.#ruleRows = new RuleRows(runner.ruleTables);
    this.#inFlight = new StepsInFlight(this.#planner, vocabSize, isFree);
    this.#choosing = new ChoosingSteps(runner, this.#inFlight, () => this.#settle());
    this.#batch = new StepBatch(runner);
    this.#tokenStep = new TokenStep(vocabSize);
    this.#services = services;
    this.#nowNs = services.nowNs ?? nowNs;
    this.#drafters = createDrafters(config.speculation, runner, services.drafter);
    this.#stats = firstStats(runner, config.maxSequences);
    this.#onTurn = onTurn;
    this.limits = requestLimits(runner, config, rules);
  }

  generate(request: GenerateRequest): AsyncIterable<GeneratedChunk> {
    const queue = new ChunkQueue(request.logProbs, request.signal);
    try {
      const sequence = this.submit(request, queue);
      queue.onCancel(() => this.cancel(sequence));
      if (request.signal?.aborted === true) this.cancel(sequence);
    } catch (error) {
      queue.failed(ServerError.from(error));
    }
    return queue;
  }

  /** Takes a request in; its results go to `sink` from the next step on. @throws ServerError when it is refused */
  submit(request: GenerateRequest, sink: SequenceSink): Sequence {
    if (this.#closed !== undefined) throw this.#closed;
    checkRequest(request, this.limits);
    // Paused sequences had a slot already; sequences in preparation will need one.
    checkQueue(this.#planner.numWaiting - this.#planner.numPaused + this.#preparing.size, this.#config.maxWaiting);
    const bytes = logitsBytes(request, this.limits);
    this.#logits.check(bytes);
    const { blockSize, numBlocks } = this.#runner;
    const limits = { ...this.limits, blockSize, numBlocks, maxSequences: this.#config.maxSequences };
    const sequence = admitRequest(request, sink, limits, this.#services);
    this.#logits.take(sequence, bytes);
    sequence.arrivalNs = this.#nowNs();
    if (request.guide === undefined && request.adapter === undefined) this.#start(sequence);
    else void this.#prepare(sequence);
    return sequence;
  }

  #start(sequence: Sequence): void {
    sequence.choosesLate = this.#runner.chooseLate !== undefined;
    if (!givesOneRow(sequence)) this.#manyRowed.add(sequence);
    this.#planner.add(sequence);
    this.#wake();
  }

  /** Never rejects. The steps of others go on meanwhile. */
  async #prepare(sequence: Sequence): Promise<void> {
    const isWanted = (): boolean => this.#preparing.has(sequence); // no more once cancelled, or the engine was closed
    this.#preparing.add(sequence);
    try {
      await prepareSequence(sequence, this.#services, isWanted);
    } catch (error) {
      if (isWanted()) this.#failOne(sequence, error);
      this.#onTurn();
      return;
    }
    if (this.#preparing.delete(sequence)) this.#start(sequence);
  }

  /** Ends a sequence by the end of the step in flight; its blocks are free then. */
  cancel(sequence: Sequence): void {
    sequence.cancelled = true;
    this.#hasCancelled = true;
    this.#wake();
  }

  stats(): Readonly<EngineStats> {
    countRequests(this.#stats, this.#planner, this.#preparing.size);
    return this.#stats;
  }

  get blocks(): string {
    return this.#planner.blocks;
  }

  /** @throws when cache blocks are lost or held twice */
  checkIntegrity(): void {
    this.#planner.checkIntegrity();
  }

  /** Fails what is still in the engine, waits for the step in flight and frees the runner. */
  async close(): Promise<void> {
    this.#closed ??= new ServerError("unavailable", "the engine is closed");
    await this.#loop;
    this.#failAll(this.#closed);
    await this.#services.guides?.close();
    this.#services.adapters?.close();
    for (const drafter of this.#drafters) await drafter.close?.();
    await this.#runner.close();
  }

  #wake(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#loop = this.#run();
  }

  async #run(): Promise<void> {
    try {
      do {
        // One turn of the event loop per step: new requests and cancellations get in even when steps take no time.
        await new Promise<void>((resolve) => setImmediate(resolve));
      } while (this.#closed === undefined && (await this.#turn()));
    } catch (error) {
      this.#fail(error);
    }
    await this.#inFlight.drop();
  }

  /** False once there is nothing to do. */
  async #turn(): Promise<boolean> {
    this.#dropCancelled();
    if (!this.#mayRunAhead) while (this.#inFlight.count > 0) await this.#settle();
    // Drafts follow tokens that are known.
    if (this.#inFlight.count === 0)
      for (const drafter of this.#drafters) await drafter.propose(this.#planner.sequences());
    const plan = this.#planner.plan(this.#nowNs() / 1e6);
    if (plan !== undefined) await this.#step(plan);
    else if (this.#inFlight.count > 0) await this.#settle();
    else this.#goIdle();
    return this.#isRunning;
  }

  /** The next step may be planned while one runs: sequences whose token it needs to know sit it out. */
  get #mayRunAhead(): boolean {
    if (this.#runner.stepsAhead !== true) return false;
    const waits = (drafter: Drafter): boolean => drafter.holdsBack?.(this.#planner.sequences()) ?? true;
    if (this.#drafters.some(waits)) return false;
    for (const sequence of this.#manyRowed) if (!givesOneRow(sequence)) return false;
    return true;
  }

  /** With all that is under way settled, or with one step under way that this one runs behind. */
  async #step(plan: StepPlan): Promise<void> {
    const input = this.#batch.fill(plan);
    const start = this.#nowNs();
    for (const sequence of plan.admitted) {
      sequence.firstScheduledNs = start;
      if (gainsFromTables(sequence)) this.#ruleRows.hold(sequence);
      sequence.sink.started();
    }
    countStep(this.#stats, plan);
    this.#onTurn();
    const { isUnderWay, partly } = await this.#choosing.begin(plan, input, this.#batch.promptRows, start);
    if (!isUnderWay) {
      return await this.#takeRows(plan, partly?.chosen.logits ?? (await this.#runner.run(input)), start, partly);
    }
    if (this.#inFlight.count > 1 || !this.#mayRunAhead) await this.#settle();
  }

  async #settle(): Promise<void> {
    this.#countTime(await this.#inFlight.settle(this.#nowNs, this.#takers));
    this.#onTurn();
  }

  #countTime(stepNs: number): void {
    this.#stats.lastStepMs = stepNs / 1e6;
    this.#stats.totalStepMs += this.#stats.lastStepMs;
  }

  /** @param partly the tokens that the device chose; `logits` then holds the other rows alone */
  async #takeRows(plan: StepPlan, logits: Float32Array, start: number, partly?: PartlyChosen): Promise<void> {
    await guidesReady(plan.sequences);
    const now = this.#nowNs();
    const { vocabSize } = this.#runner;
    const rowsFrom = (row: number, count: number): Float32Array =>
      logits.subarray(row * vocabSize, (row + count) * vocabSize);
    for (const rows of sequenceRows(plan, this.#batch.promptRows, partly)) {
      const { sequence, numPromptRows, numDrafts, lastRow, chosenRow } = rows;
      this.#planner.computed(sequence, rows.numComputed);
      const prompt = rowsFrom(rows.firstPromptRow, numPromptRows);
      if (numPromptRows > 0) this.#tokenStep.takePrompt(sequence, prompt, numPromptRows);
      if (lastRow === undefined || sequence.cancelled) continue;
      if (chosenRow === undefined || partly === undefined)
        this.#verify(sequence, rowsFrom(lastRow, 1 + numDrafts), numDrafts, now);
      else this.#verifyChosen(rows, partly.chosen, chosenRow, now);
    }
    // Beams change places once nothing of this step looks at them any more.
    for (const group of this.#complete) this.#advance(group, now);
    this.#complete.length = 0;
    this.#countTime(this.#nowNs() - start);
  }

  /** For sequences that give one row at most. */
  readonly #takers: StepTakers = {
    token: (sequence, chosen, at, now) => {
      this.#take(sequence, () => this.#tokenStep.takeChosen(sequence, chosen, at, now));
      sequence.pace.record(0, 0);
    },
    row: (sequence, row, now) => this.#verify(sequence, row, 0, now),
  };

  /** The device chose the token of each row, from row `first` on. */
  #verifyChosen({ sequence, numDrafts }: SequenceRows, chosen: ChosenTokens, first: number, now: number): void {
    const take = (i: number) => this.#tokenStep.takeChosen(sequence, chosen, first + i, now);
    verifyDrafts(sequence, numDrafts, this.#planner, (i) => this.#take(sequence, () => take(i)));
  }

  /** True while the sequence goes on with a token more. */
  #takeRow(sequence: Sequence, row: Float32Array, now: number): boolean {
    const { group } = sequence;
    return this.#take(sequence, () => {
      if (group === undefined) return this.#tokenStep.take(sequence, row, now);
      if (!group.isOver && group.offer(sequence, row, this.#tokenStep.sampler)) this.#complete.push(group);
      return "waits";
    });
  }

  /** Ends the sequence with the reason that comes of its token, if any; true while it goes on with a token more. */
  #take(sequence: Sequence, take: () => FinishReason | "waits" | undefined): boolean {
    try {
      const reason = take();
      if (reason !== undefined && reason !== "waits") this.#finish(sequence, reason);
      return reason === undefined;
    } catch (error) {
      this.#failOne(sequence, error);
      return false;
    }
  }

  /** @param rows [1 + numDrafts, vocabSize] */
  #verify(sequence: Sequence, rows: Float32Array, numDrafts: number, now: number): void {
    const { vocabSize } = this.#runner;
    const rowOf = (i: number): Float32Array => rows.subarray(i * vocabSize, (i + 1) * vocabSize);
    verifyDrafts(sequence, numDrafts, this.#planner, (i) => this.#takeRow(sequence, rowOf(i), now));
  }

  #advance(group: SequenceGroup, now: number): void {
    if (group.isOver || group.leader.cancelled || !group.advance(this.#planner, now)) return;
    const { reason, usage } = group.finish(this.#planner);
    this.#giveBack(group.leader);
    countTokens(this.#stats, usage);
    group.leader.sink.finished(reason, usage);
  }

  #finish(sequence: Sequence, reason: FinishReason): void {
    if (sequence.numPending > 0) this.#planner.trim(sequence); // a step under way has a token more than it needed
    const usage = sequence.group?.cancelledUsage() ?? sequence.usage();
    this.#remove(sequence);
    countTokens(this.#stats, usage);
    sequence.sink.finished(reason, usage);
  }

  /** With all the beams it belongs to. */
  #remove(sequence: Sequence): void {
    this.#preparing.delete(sequence);
    this.#giveBack(sequence.group?.leader ?? sequence);
    for (const drafter of this.#drafters) drafter.forget?.(sequence);
    if (sequence.group === undefined) this.#planner.remove(sequence);
    else sequence.group.remove(this.#planner);
    sequence.guide?.close();
  }

  #giveBack(sequence: Sequence): void {
    this.#logits.giveBack(sequence);
    this.#manyRowed.delete(sequence);
    this.#ruleRows.release(sequence);
    const { adapter } = sequence;
    sequence.isOver = true;
    sequence.adapter = undefined;
    if (adapter !== undefined) this.#services.adapters?.release(adapter);
  }

  /** An error of a request's own rules: others do not notice. */
  #failOne(sequence: Sequence, error: unknown): void {
    this.#remove(sequence);
    sequence.sink.failed(ServerError.from(error));
  }

  #dropCancelled(): void {
    if (!this.#hasCancelled) return;
    this.#hasCancelled = false;
    for (const sequence of this.#requests()) if (sequence.cancelled) this.#finish(sequence, "cancelled");
  }

  /** One sequence of every request in the engine. */
  #requests(): Set<Sequence> {
    const requests = new Set(this.#preparing);
    for (const sequence of this.#planner.sequences()) requests.add(sequence.group?.leader ?? sequence);
    return requests;
  }

  #goIdle(): void {
    if (this.#planner.numWaiting > 0) throw new Error("step planner: nothing to do while sequences wait");
    this.#planner.checkIntegrityNowAndThen();
    countIdle(this.#stats);
    this.#onTurn();
    this.#isRunning = false; // in the same turn as the last look at the queue, so that no wake-up is lost
  }

  /** A step that fails, or a broken invariant, ends this engine: what the cache holds can no longer be trusted. */
  #fail(error: unknown): void {
    const cause = error instanceof Error ? error.message : String(error);
    this.#closed = new ServerError("internal", `a step of the engine failed: ${cause}`, { cause: error });
    this.#failAll(this.#closed);
    this.#onTurn();
  }

  /** Set once the engine takes no more requests because a step failed or it was closed. */
  get failure(): ServerError | undefined {
    return this.#closed;
  }

  #failAll(error: ServerError): void {
    for (const sequence of this.#requests()) {
      this.#remove(sequence);
      sequence.sink.failed(error);
    }
  }
}
