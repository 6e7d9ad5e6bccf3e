/** libllama of the npm package whose ggml Nereid uses, called through that package's own binding, without its API on top. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { type Runner, type Setup, serveJobs, someTokens } from "./worker-protocol.ts";

interface Model {
  init(): Promise<boolean>;
}
interface Context {
  init(): Promise<boolean>;
  initBatch(size: number): void;
  addToBatch(sequence: number, firstPosition: number, tokens: Uint32Array, logitIndexes: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  disposeSequence(sequence: number): void;
}
interface Binding {
  loadBackends(folder: string): void;
  init(): Promise<void>;
  setLoggerLogLevel(level: number): void;
  readonly AddonModel: new (path: string, options: object) => Model;
  readonly AddonContext: new (model: Model, options: object) => Context;
}

async function open({ modelPath, numThreads, maxBatch, maxContext }: Setup): Promise<Runner> {
  const require = createRequire(import.meta.url);
  // Beside the package's main file, which its exports do not name.
  const main = dirname(require.resolve("@node-llama-cpp/linux-x64"));
  const binding = require(join(main, "../bins/linux-x64/llama-addon.node")) as Binding;
  binding.setLoggerLogLevel(0);
  binding.loadBackends(join(main, "../bins/linux-x64"));
  await binding.init();
  const model = new binding.AddonModel(modelPath, { addonExports: binding, useMmap: true });
  if (!(await model.init())) throw new Error(`libllama does not load ${modelPath}`);
  const context = new binding.AddonContext(model, {
    contextSize: maxContext * maxBatch,
    batchSize: 512,
    sequences: maxBatch,
    threads: numThreads,
    flashAttention: true,
  });
  if (!(await context.init())) throw new Error("libllama makes no context");
  const evaluate = async (sequences: readonly number[], first: number, tokens: readonly number[]): Promise<void> => {
    context.initBatch(sequences.length * tokens.length);
    const ids = Uint32Array.from(tokens);
    for (const sequence of sequences) context.addToBatch(sequence, first, ids, Uint32Array.of(tokens.length - 1));
    await context.decodeBatch();
  };
  return async (job) => {
    if (job.kind === "generate") throw new Error("only steps are timed here");
    const batch = job.kind === "prefill" ? 1 : job.batch;
    const sequences = Array.from({ length: batch }, (_, i) => i);
    for (const sequence of sequences) context.disposeSequence(sequence);
    const startMs = performance.now();
    if (job.kind === "prefill") {
      await evaluate([0], 0, someTokens(job.numTokens));
      return [performance.now() - startMs];
    }
    for (const sequence of sequences) await evaluate([sequence], 0, someTokens(job.context));
    const times: number[] = [];
    for (let step = 0; step < job.numSteps; step++) {
      const stepMs = performance.now();
      await evaluate(sequences, job.context + step, [777]);
      times.push(performance.now() - stepMs);
    }
    return times;
  };
}

serveJobs(open);
