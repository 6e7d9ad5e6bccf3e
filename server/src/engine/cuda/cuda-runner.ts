/**
 * Runs a decoder on a GPU: steps in which every sequence adds one token as graphs recorded per size, all others kernel by
 * kernel. The event loop goes on while the device works.
 */
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import { CudaGraph } from "../../device/cuda/cuda-graph.ts";
import { CublasLtGemms, gemmRows } from "../../device/cuda/dense-gemm.ts";
import { CudaTimer } from "../../device/cuda/measure-algorithms.ts";
import { hasThreeAxes } from "../../models/config/rope-axes.ts";
import { enqueueChoice } from "../../models/cuda/choice.ts";
import { choiceBytes } from "../../models/cuda/choice-layout.ts";
import { enqueueDecoder, enqueueLogits } from "../../models/cuda/decoder.ts";
import type { CudaReplacedRows } from "../../models/cuda/embedding.ts";
import { planRuleTables } from "../../models/cuda/memory.ts";
import type { CudaBatch, CudaPass } from "../../models/cuda/pass.ts";
import { layOutStep, packStep, type StepSizes } from "../../models/cuda/step-layout.ts";
import type { AdapterShares } from "../../models/shard/rank-lora.ts";
import { checkStep, type StepLimits } from "../plan/check-step.ts";
import { checkAdapters } from "../request/check-adapters.ts";
import type { ChosenTokens, LateChoice, StepInput, StepRunner, TokenChoice } from "../step-runner.ts";
import { CudaAdapters, type PlacedAdapter } from "./adapters.ts";
import { HostKvCache } from "./host-kv-cache.ts";
import { enqueueLateChoice } from "./late-choice.ts";
import { enqueueRuleRows } from "./rule-tables.ts";
import type { CudaDecoder } from "./setup.ts";
import { adapterSizes, packAdapters, planStepAdapters, type StepAdapters } from "./step-adapters.ts";
import { StepNumbers, usualStepWords } from "./step-numbers.ts";
import { type BegunStep, StepSlot } from "./step-slot.ts";
import type { CudaStepTimings } from "./step-timings.ts";
import {
  chosenTokens,
  countQueries,
  isDecodeStep,
  keepsRows,
  packChoices,
  storedValues,
  wantsTop,
} from "./step-values.ts";

/** Smallest block table in a step's inputs. */
const MIN_BLOCKS = 16;
/** Rows of logits whose tokens are chosen on the device begin at multiples of 16 bytes. */
const CHOICE_VOCABULARY_STEP = 4;

export interface CudaRunnerBounds {
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly maxPositions: number;
  readonly maxLogitRows: number;
  readonly usesGraphs: boolean;
  /** The engine then samples from logits, with any other requests in the step. */
  readonly isDeterministic?: boolean | undefined;
}

type Choices = readonly (TokenChoice | undefined)[];

const NO_ADAPTERS: ReadonlyMap<number, PlacedAdapter> = new Map();
const ONE_AT_A_TIME = "a step is running: await it before one whose logits are wanted";
const MAX_UNDER_WAY = 2;
/** One more: a step is timed against the one before it, whose events must not have been recorded again by then. */
const NUM_SLOTS = 3;

export class DecoderCudaRunner implements StepRunner, StepLimits {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly window: number | undefined;
  readonly gpuBytes: number;
  readonly hasAxes: boolean;
  readonly maxPositions: number;
  readonly eosTokenIds: readonly number[];
  readonly choose: StepRunner["choose"];
  readonly chooseLate: StepRunner["chooseLate"];
  readonly maxChoices: number;
  readonly ruleTables: StepRunner["ruleTables"];
  readonly stepsAhead = true;
  readonly timings: CudaStepTimings = { numSteps: 0, hostMs: 0, waitMs: 0, numBehind: 0, idleMs: 0 };
  readonly adapters: CudaAdapters | undefined;
  /** Present on one of several GPUs: each GPU's share of an adapter. */
  readonly adapterShares: AdapterShares | undefined;
  readonly device: CudaDevice;
  readonly gemms: CublasLtGemms;
  readonly #decoder: CudaDecoder;
  readonly #bounds: CudaRunnerBounds;
  readonly #hostKvCache: HostKvCache;
  readonly #timer: CudaTimer;
  readonly #graphs = new Map<string, CudaGraph>();
  readonly #numbers: StepNumbers;
  readonly #slots: readonly StepSlot[];
  #nextSlot = 0;
  #numUnderWay = 0;
  /** Rows whose tokens the step begun last chooses, those that only make up the number included. */
  #numChosen = 0;
  /** The step begun last waits for its choices. */
  #isOpen = false;
  #doneMs = 0;
  #running: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;

  /** Takes over device and decoder. */
  constructor(device: CudaDevice, decoder: CudaDecoder, bounds: CudaRunnerBounds) {
    const { config, blockSize, numBlocks } = decoder.model;
    this.vocabSize = config.vocabSize;
    this.hiddenSize = config.hiddenSize;
    this.maxPositions = bounds.maxPositions;
    this.eosTokenIds = config.eosTokenIds;
    this.blockSize = blockSize;
    this.gpuBytes = decoder.numBytes;
    this.hasAxes = hasThreeAxes(config);
    this.numBlocks = numBlocks;
    this.window = decoder.window;
    this.numHostBlocks = decoder.hostKv.numHostBlocks;
    this.#hostKvCache = new HostKvCache(decoder.hostKv, numBlocks);
    this.device = device;
    const { loraTargets, model } = decoder;
    this.adapters = loraTargets && new CudaAdapters(device, loraTargets, model.type, config.numLayers);
    this.adapterShares = decoder.adapterShares;
    this.#decoder = decoder;
    this.#bounds = bounds;
    this.#timer = new CudaTimer(device);
    this.gemms = new CublasLtGemms(device, this.#timer, bounds.isDeterministic);
    const { logits } = decoder.memory;
    const shape = { logits, vocabSize: config.vocabSize, maxLogitRows: bounds.maxLogitRows };
    this.#slots = Array.from({ length: NUM_SLOTS }, () => new StepSlot(device, shape));
    this.#numbers = new StepNumbers(device, usualStepWords(this, bounds), NUM_SLOTS);
    const isChoosing = config.vocabSize % CHOICE_VOCABULARY_STEP === 0 && bounds.isDeterministic !== true;
    this.choose = isChoosing ? (input, choices): Promise<ChosenTokens> => this.#choose(input, choices) : undefined;
    this.chooseLate = isChoosing ? (input, choices): LateChoice => this.#chooseLate(input, choices) : undefined;
    this.maxChoices = bounds.maxLogitRows;
    this.ruleTables = isChoosing ? planRuleTables(config.vocabSize, bounds.maxSequences) : undefined;
  }

  async run(input: StepInput): Promise<Float32Array> {
    if (this.#numUnderWay > 0) throw new Error(ONE_AT_A_TIME);
    const { logits } = await this.#end(this.#begin(input, undefined, false));
    return logits.rows(input.logitRows.length);
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAfter(this.#running);
    return this.#closing;
  }

  /** For observers of `gemms`. */
  get layers(): CudaDecoder["model"]["weights"]["layers"] {
    return this.#decoder.model.weights.layers;
  }

  /** Tokens of the step begun last that the next may take before they are known. */
  get numCarriable(): number {
    return this.#numChosen;
  }

  /** How many graphs have been recorded. */
  get numGraphs(): number {
    return this.#graphs.size;
  }

  #choose(input: StepInput, choices: Choices): Promise<ChosenTokens> {
    const isMasked = choices.some((choice) => choice?.mask !== undefined);
    if (!isMasked) return this.#chosen(this.#begin(input, choices, false), choices);
    const late = this.#chooseLate(input, choices);
    late.give(choices);
    return late.chosen;
  }

  #chooseLate(input: StepInput, early: Choices): LateChoice {
    const begun = this.#begin(input, early, true);
    let give = (): void => undefined;
    const given = new Promise<void>((resolve) => {
      give = resolve;
    });
    return {
      chosen: given.then(() => this.#chosen(begun, early)),
      give: (choices): void => {
        this.#isOpen = false;
        try {
          if (begun.pass !== undefined) enqueueLateChoice(begun.pass, choices, begun.slot);
          this.#seal(begun);
        } finally {
          give();
        }
      },
    };
  }

  async #chosen(begun: BegunStep, choices: Choices): Promise<ChosenTokens> {
    const { chosen, logits } = await this.#end(begun);
    const numSeen = choices.filter((choice) => choice === undefined).length;
    return { ...chosenTokens(chosen, choices.length, begun.pass?.batch), logits: logits.rows(numSeen) };
  }

  /** Enqueues a step, without the choice of its tokens if that is late. */
  #begin(input: StepInput, choices: Choices | undefined, isLate: boolean): BegunStep {
    if (this.#closing !== undefined) throw new Error("the step runner is closed");
    const slot = this.#slots[this.#nextSlot];
    if (this.#isOpen || this.#numUnderWay >= MAX_UNDER_WAY || slot === undefined)
      throw new Error("too many steps are running");
    const before = this.#numUnderWay > 0 ? this.#slots[(this.#nextSlot + NUM_SLOTS - 1) % NUM_SLOTS] : undefined;
    const startMs = performance.now();
    const pass = this.#enqueue(input, choices, slot, isLate);
    const begun = { slot, before, enqueuedMs: performance.now(), pass };
    if (!isLate) this.#seal(begun);
    this.#isOpen = isLate;
    this.#nextSlot = (this.#nextSlot + 1) % NUM_SLOTS;
    this.#numUnderWay += 1;
    this.timings.numSteps++;
    this.timings.hostMs += begun.enqueuedMs - startMs;
    return begun;
  }

  /** Behind all that the step computes. */
  #seal({ slot, pass }: BegunStep): void {
    const numBytes = pass === undefined ? 0 : choiceBytes(pass.batch.numChoices, pass.batch.hasTop);
    if (numBytes > 0) this.device.stream.copyToHost(slot.chosen.address, this.#decoder.memory.chosen, numBytes);
    slot.done.record(this.device.stream);
  }

  /** Settles when the device has done the step. */
  #end(begun: BegunStep): Promise<StepSlot> {
    const step = this.#finish(begun);
    this.#running = step;
    return step;
  }

  async #finish({ slot, before, enqueuedMs }: BegunStep): Promise<StepSlot> {
    try {
      await slot.done.passed("running a step");
    } finally {
      this.#numUnderWay -= 1;
    }
    const nowMs = performance.now();
    this.timings.waitMs += nowMs - Math.max(enqueuedMs, this.#doneMs);
    this.#doneMs = nowMs;
    if (before === undefined) return slot;
    this.timings.numBehind++;
    this.timings.idleMs += slot.begun.msSince(before.done);
    return slot;
  }

  /** Gives the pass, if there is anything to compute. */
  #enqueue(input: StepInput, choices: Choices | undefined, slot: StepSlot, isLate: boolean): CudaPass | undefined {
    checkStep(input, this);
    this.#checkBounds(input, choices);
    slot.begin();
    slot.begun.record(this.device.stream);
    this.#numChosen = 0;
    if (input.blockCopies !== undefined) this.#hostKvCache.copy(input.blockCopies);
    if (input.ruleRows !== undefined) enqueueRuleRows(this.device.stream, this.#decoder, input.ruleRows, slot);
    if (input.tokenIds.length === 0) return undefined;
    const isRecorded = this.#bounds.usesGraphs && isDecodeStep(input);
    return isRecorded
      ? this.#enqueueDecode(input, choices, slot, isLate)
      : this.#enqueueAny(input, choices, slot, isLate);
  }

  /**
   * Sizes are rounded up, so that few graphs serve all steps. The first step of a size runs before it is recorded. Tokens
   * are chosen behind the graph: one graph serves every way to choose.
   */
  #enqueueDecode(input: StepInput, choices: Choices | undefined, slot: StepSlot, isLate: boolean): CudaPass {
    const rows = gemmRows(input.tokenIds.length);
    const maxBlocks = 2 ** Math.ceil(Math.log2(Math.max(MIN_BLOCKS, this.#neededBlocks(input))));
    const adapters = planStepAdapters(input, this.adapters?.loaded ?? NO_ADAPTERS, rows);
    const numChoices = choices === undefined ? 0 : rows;
    const { hasAxes } = this;
    const sizes = { numTokens: rows, hasAxes, numSequences: rows, maxBlocks, numLogitRows: 0, numChoices };
    const kind = { numDecoding: rows, maxQueryLength: 1, keepsAllRows: true };
    const pass = this.#pass({ ...this.#upload(input, sizes, choices, kind, adapters), numLogitRows: rows });
    this.#replay(`${rows} ${maxBlocks} ${numChoices} ${adapters?.maxRank ?? 0}`, () => enqueueDecodePass(pass));
    if (choices === undefined) {
      slot.logits.copy(0, input.logitRows.length, input.logitRows.length);
      return pass;
    }
    if (!isLate) enqueueChoice(pass, rows);
    this.#numChosen = rows;
    slot.logits.copyUnchosen(choices);
    return pass;
  }

  #replay(key: string, enqueue: () => void): void {
    const graph = this.#graphs.get(key);
    if (graph !== undefined) {
      graph.launch(this.device.stream);
      return;
    }
    enqueue();
    this.#graphs.set(key, new CudaGraph(this.device.driver, this.device.stream, enqueue));
  }

  #enqueueAny(input: StepInput, choices: Choices | undefined, slot: StepSlot, isLate: boolean): CudaPass | undefined {
    const numLogitRows = input.logitRows.length;
    const sizes = {
      numTokens: input.tokenIds.length,
      hasAxes: this.hasAxes,
      numSequences: input.sequences.length,
      maxBlocks: this.#neededBlocks(input),
      numLogitRows,
      numChoices: choices?.length ?? 0,
    };
    const kind = { ...countQueries(input), keepsAllRows: keepsRows(input) };
    const adapters = planStepAdapters(input, this.adapters?.loaded ?? NO_ADAPTERS);
    const pass = this.#pass(this.#upload(input, sizes, choices, kind, adapters));
    const rows = enqueueDecoder(pass, this.#uploadEmbeddings(input, slot));
    if (rows === undefined) return undefined;
    for (let first = 0; first < numLogitRows; first += this.#bounds.maxLogitRows) {
      const count = Math.min(this.#bounds.maxLogitRows, numLogitRows - first);
      enqueueLogits(pass, rows, { first, count }, pass.memory.logits);
      if (choices === undefined) slot.logits.copy(first, count, numLogitRows);
    }
    if (choices === undefined) return undefined;
    if (!isLate) enqueueChoice(pass, choices.length);
    this.#numChosen = choices.length;
    slot.logits.copyUnchosen(choices);
    return pass;
  }

  #pass(batch: CudaBatch): CudaPass {
    const { model, memory } = this.#decoder;
    return { stream: this.device.stream, gemms: this.gemms, model, memory, batch };
  }

  #upload(
    input: StepInput,
    sizes: StepSizes,
    choices: Choices | undefined,
    kind: Pick<CudaBatch, "numDecoding" | "maxQueryLength" | "keepsAllRows">,
    adapters: StepAdapters | undefined,
  ): CudaBatch {
    const layout = layOutStep({ ...sizes, ...adapterSizes(adapters) });
    // Graphs remember where the numbers are.
    const { pinned, buffer } = this.#numbers.reserve(layout.length, this.#nextSlot, () => this.#dropGraphs());
    const values = new Int32Array(pinned.bytes.buffer, pinned.bytes.byteOffset, layout.length);
    packStep(input, sizes, layout, this.blockSize, values);
    if (choices !== undefined) packChoices(choices, sizes.numChoices, values, layout.choices);
    const lora = packAdapters(adapters, layout, values, buffer.address);
    this.device.stream.copyToDevice(buffer.address, pinned.address, 4 * layout.length);
    const hasTop = choices !== undefined && wantsTop(choices);
    return { ...sizes, ...kind, ...lora, hasTop, numbers: buffer.address, layout };
  }

  /** Addresses of the rows and their values, once the stream reaches them; both in memory that is free until then. */
  #uploadEmbeddings({ embeddings }: StepInput, slot: StepSlot): CudaReplacedRows | undefined {
    if (embeddings === undefined || embeddings.rows.length === 0) return undefined;
    const { rows, values } = embeddings;
    const { memory, model } = this.#decoder;
    slot.upload(memory.mlpBranch, rows);
    slot.upload(memory.branch, storedValues(values, model.type));
    return { rows: memory.mlpBranch, values: memory.branch, count: rows.length };
  }

  #neededBlocks({ sequences }: StepInput): number {
    let longest = 1;
    for (const { contextLength } of sequences) longest = Math.max(longest, contextLength);
    return Math.ceil(longest / this.blockSize);
  }

  #checkBounds({ tokenIds, sequences, logitRows }: StepInput, choices: Choices | undefined): void {
    const { maxTokens, maxSequences } = this.#bounds;
    if (tokenIds.length > maxTokens || sequences.length > maxSequences) {
      throw new Error(
        `step: expected at most ${maxTokens} tokens of ${maxSequences} sequences, got ${tokenIds.length} of ${sequences.length}`,
      );
    }
    const count = choices?.length ?? 0;
    if (choices !== undefined && (count !== logitRows.length || count > this.#bounds.maxLogitRows)) {
      throw new Error(`step: expected a choice for each of ${logitRows.length} rows, got ${count}`);
    }
    if (this.adapters !== undefined) this.adapters.check(sequences);
    else checkAdapters(sequences, NO_ADAPTERS);
  }

  #dropGraphs(): void {
    if (this.#graphs.size > 0) this.device.stream.synchronize();
    for (const graph of this.#graphs.values()) graph.close();
    this.#graphs.clear();
  }

  async #closeAfter(running: Promise<unknown> | undefined): Promise<void> {
    await running?.catch(() => undefined);
    this.#dropGraphs();
    await this.adapters?.close();
    this.gemms.close();
    this.#timer.close();
    this.#numbers.close();
    for (const slot of this.#slots) slot.close();
    this.#decoder.close();
    this.device.close();
  }
}

function enqueueDecodePass(pass: CudaPass): void {
  const rows = enqueueDecoder(pass);
  if (rows === undefined) throw new Error("a decode step without logits");
  enqueueLogits(pass, rows, { first: 0, count: pass.batch.numTokens }, pass.memory.logits);
}
