/** Opens a GGUF file with libllama, ready to run steps: memory plan, model, context, and a first step that tells what the memory can do. */
import { loadavg } from "node:os";
import { ServerError } from "../../core/server-error.ts";
import { availableProcessors } from "../../device/cpu/available-processors.ts";
import { numIdleProcessors } from "../../device/cpu/cpu-device.ts";
import { LlamaTokenBatch } from "../../device/llama/llama-batch.ts";
import { DECODED, LlamaContext, type LlamaContextOptions } from "../../device/llama/llama-context.ts";
import { LlamaModel } from "../../device/llama/llama-model.ts";
import { type GgufSummary, readGgufSummary } from "../../formats/gguf/gguf.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { chooseLlamaDevice } from "./choose-device.ts";
import { LlamaRunner } from "./llama-runner.ts";
import { numSequencesOf, planLlamaMemory } from "./memory-demand.ts";

export interface LlamaRunnerSettings {
  /** A GGUF file. */
  readonly path: string;
  /** Why this engine has the model, for the log. */
  readonly reason: string;
  readonly blockSize: number;
  readonly tell: (line: string) => void;
}

/** @throws ServerError or Error with the file, and what is wrong or missing */
export async function createLlamaRunner(
  spec: EngineSpec,
  { path, reason, blockSize, tell }: LlamaRunnerSettings,
): Promise<LlamaRunner> {
  expectServed(spec);
  const summary = await readGgufSummary(path); // libllama is not to see a header that is not sound
  expectDistinctTokens(summary, path);
  const numSequences = numSequencesOf(spec, summary);
  const device = chooseLlamaDevice(spec);
  if (device.note !== undefined) tell(device.note);
  const plan = planLlamaMemory(summary, spec, blockSize, device.freeBytes);
  for (const line of plan.lines) tell(line);
  const model = await LlamaModel.load({ path, llama: device.llama, numGpuLayers: device.numGpuLayers });
  try {
    expectDecoder(model);
    tell(`engine llama.cpp ${model.llama.version} on ${device.title} serves ${model.facts.description}: ${reason}`);
    const options = contextOptions(spec, plan.numBlocks * blockSize, numSequences);
    const context = await LlamaContext.create(model, options);
    const canCut = await probeMemory(context, model, path).catch(async (error: unknown) => {
      await context.close();
      throw error;
    });
    if (!canCut) tell("sequences of this model have a state that cannot be cut: prefixes are not reused");
    if (!canCut && spec.engine.speculation.maxDraftTokens > 0)
      tell("speculation slows this model down: after a wrong draft all is computed again");
    return new LlamaRunner(model, context, {
      blockSize,
      numBlocks: plan.numBlocks,
      numSequences,
      maxBatchTokens: options.maxBatchTokens,
      maxOutputs: options.maxOutputs,
      maxPositions: Math.max(1, model.facts.maxPositions),
      endIds: model.endIds(),
      architecture: String(summary.metadata.get("general.architecture") ?? ""),
      canCut,
    });
  } catch (error) {
    model.close();
    throw error;
  }
}

/** libllama aborts the process at a token that occurs twice. */
function expectDistinctTokens({ metadata }: GgufSummary, path: string): void {
  const tokens = metadata.get("tokenizer.ggml.tokens");
  if (typeof tokens !== "object") return;
  const seen = new Map<unknown, number>();
  for (const [id, token] of tokens.entries()) {
    const first = seen.get(token);
    if (first !== undefined) {
      const text = JSON.stringify(String(token).slice(0, 80));
      throw new Error(`${path}: tokenizer.ggml.tokens: expected each token once, got ${text} as ${first} and ${id}`);
    }
    seen.set(token, id);
  }
}

function contextOptions(spec: EngineSpec, numCells: number, maxSequences: number): LlamaContextOptions {
  const { engine, numThreads, kvCache } = spec;
  const idle = numIdleProcessors(availableProcessors(), loadavg()[0] ?? 0);
  return {
    numCells,
    maxSequences,
    maxBatchTokens: Math.min(numCells, Math.max(engine.maxBatchTokens, engine.maxSequences)),
    maxOutputs: maxSequences, // libllama asserts that there are no fewer
    numThreads: numThreads > 0 ? Math.min(numThreads, availableProcessors()) : idle,
    cacheType: kvCache?.type,
  };
}

/** Settings that change answers and that libllama cannot follow are refused, not ignored. */
function expectServed({ isDeterministic, weightType, kvCache }: EngineSpec): void {
  const refuse = (parameter: string, why: string): never => {
    throw new ServerError("unsupported", `parameter '${parameter}': the llama.cpp engine ${why}; take engine nereid`);
  };
  if (isDeterministic === true) refuse("deterministic", "gives logits that depend on what else is computed");
  if (weightType !== undefined) refuse("weight_type", "computes with the weights as the file stores them");
  if ((kvCache?.attentionWindows.length ?? 0) > 0) refuse("max_attention_window_size", "has the windows of the file");
}

function expectDecoder({ path, facts }: LlamaModel): void {
  const { hasDecoder, hasEncoder, isDiffusion, description, vocabSize } = facts;
  const refuse = (why: string): never => {
    throw new ServerError("unsupported", `${path}: ${description}: ${why}`);
  };
  if (isDiffusion) refuse("it generates by diffusion, which this server does not");
  if (hasEncoder && hasDecoder) refuse("it has an encoder and a decoder, and this engine runs decoders alone");
  if (!hasDecoder) refuse("it is an encoder, which gives embeddings and no text");
  if (vocabSize < 1) refuse("it has no vocabulary");
}

/** Runs two tokens and removes one. The weights are in memory afterwards. */
async function probeMemory(context: LlamaContext, { facts }: LlamaModel, path: string): Promise<boolean> {
  if (!context.hasMemory) {
    throw new ServerError("unsupported", `${path}: ${facts.description}: it gives embeddings and no text`);
  }
  const batch = new LlamaTokenBatch(2);
  for (let position = 0; position < 2; position++) batch.add(0, position, 0, position === 1);
  const status = await context.decode(batch);
  if (status !== DECODED) throw new Error(`${path}: libllama could not run a first step: status ${status}`);
  const canCut = context.remove(0, 1, -1);
  context.remove(0, 0, -1);
  return canCut;
}
