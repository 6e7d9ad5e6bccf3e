/** Nereid as a server whose clients stream token ids over HTTP. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BenchServer, startNereid } from "../serving/servers.ts";
import { type Generation, type Setup, someTokens } from "./worker-protocol.ts";

export class ServedNereid {
  readonly #server: BenchServer;
  #turn = 0;

  constructor(server: BenchServer) {
    this.#server = server;
  }

  /** The built server of `root`, with a repository written to `folder`. */
  static async start(root: string, folder: string, basePort: number, setup: Setup): Promise<ServedNereid> {
    mkdirSync(join(folder, "model/1"), { recursive: true });
    writeFileSync(join(folder, "model/config.pbtxt"), configOf(setup));
    return new ServedNereid(await startNereid(root, [folder], basePort));
  }

  /** Milliseconds until the last of the clients has its last token. */
  async generate({ clients, promptTokens, newTokens }: Generation): Promise<number> {
    const startMs = performance.now();
    await Promise.all(Array.from({ length: clients }, () => this.#one(promptTokens, newTokens)));
    return performance.now() - startMs;
  }

  async #one(promptTokens: number, newTokens: number): Promise<void> {
    const body = {
      input_ids: someTokens(promptTokens, this.#turn++),
      input_lengths: promptTokens,
      request_output_len: newTokens,
      end_id: -1,
      streaming: true,
    };
    const response = await fetch(`http://127.0.0.1:${this.#server.httpPort}/v2/models/model/generate_stream`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    if (!response.ok || response.body === null) throw new Error(`${response.status}: ${await response.text()}`);
    let events = 0;
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      if (text.includes('"error"')) throw new Error(text);
      events += text.split("data: ").length - 1;
    }
    if (events < newTokens) throw new Error(`expected ${newTokens} tokens, got ${events}`);
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }
}

function configOf({ modelPath, format, numThreads, maxBatch, maxContext }: Setup): string {
  const parameters = {
    gpt_model_path: modelPath,
    gpt_model_type: "inflight_fused_batching",
    num_threads: String(numThreads),
    max_tokens_in_paged_kv_cache: String(maxBatch * maxContext),
    kv_cache_type: "f16",
    // Blocks stay as they are stored.
    ...(format === "bf16" ? { weight_type: format } : {}),
  };
  const tensor = (name: string, dims: string): string => `{ name: "${name}" data_type: TYPE_INT32 dims: [ ${dims} ] }`;
  return `
backend: "llm"
max_batch_size: ${maxBatch}
model_transaction_policy { decoupled: true }
input [ ${["input_ids", "input_lengths", "request_output_len", "end_id"].map((name) => tensor(name, name === "input_ids" ? "-1" : "1")).join(", ")},
  { name: "streaming" data_type: TYPE_BOOL dims: [ 1 ] optional: true } ]
output [ ${tensor("output_ids", "-1, -1")}, ${tensor("sequence_length", "-1")} ]
${Object.entries(parameters)
  .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
  .join("\n")}
`;
}
