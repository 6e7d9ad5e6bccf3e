/** node-llama-cpp by its own API: sequences of one context, which batches them by itself. */
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { type Runner, type Setup, serveJobs, someTokens } from "./worker-protocol.ts";

interface Sequence {
  evaluate(tokens: readonly number[], options: object): AsyncGenerator<number>;
  clearHistory(): Promise<void>;
}
interface Api {
  getLlama(options: object): Promise<{
    loadModel(options: object): Promise<{
      createContext(options: object): Promise<{ getSequence(): Sequence }>;
    }>;
  }>;
}

async function open({ modelPath, numThreads, maxBatch, maxContext }: Setup): Promise<Runner> {
  const folder = process.env.NODE_LLAMA_CPP_FOLDER ?? ".";
  const entry = createRequire(pathToFileURL(`${folder}/package.json`)).resolve("node-llama-cpp");
  const { getLlama } = (await import(pathToFileURL(entry).href)) as Api;
  const llama = await getLlama({ gpu: false, build: "never", maxThreads: numThreads, logLevel: "error" });
  const model = await llama.loadModel({ modelPath });
  const context = await model.createContext({
    sequences: maxBatch,
    contextSize: maxContext,
    batchSize: 512,
    threads: numThreads,
    flashAttention: true,
  });
  const sequences = Array.from({ length: maxBatch }, () => context.getSequence());
  let turn = 0;
  return async (job) => {
    if (job.kind !== "generate") throw new Error("only generations are timed here");
    const chosen = sequences.slice(0, job.clients);
    for (const sequence of chosen) await sequence.clearHistory();
    const generate = async (sequence: Sequence): Promise<void> => {
      let left = job.newTokens;
      const prompt = someTokens(job.promptTokens, turn++);
      for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
        left -= 1;
        if (left === 0) break;
      }
      if (left > 0) throw new Error(`a sequence ended ${left} tokens early`);
    };
    const startMs = performance.now();
    await Promise.all(chosen.map(generate));
    return [performance.now() - startMs];
  };
}

serveJobs(open);
