/**
 * Asks the example models with @nereid/client: adds two vectors, then lets the language model write.
 *   node typescript-client.mjs --url http://localhost:8000 --prompt "Once upon a time"
 */
import { parseArgs } from "node:util";
import { NereidClient, tensor } from "@nereid/client";

const { values: options } = parseArgs({
  options: {
    url: { type: "string", default: "http://localhost:8000" },
    prompt: { type: "string", default: "Once upon a time" },
  },
});
const client = new NereidClient({ url: options.url });
const { name, version } = await client.serverMetadata();
console.log(`${name} ${version} at ${options.url}`);

const a = Int32Array.from({ length: 16 }, (_, i) => i);
const b = new Int32Array(16).fill(100);
const result = await client.model("simple").infer({
  inputs: [tensor("INPUT0", "INT32", [1, 16], a), tensor("INPUT1", "INT32", [1, 16], b)],
});
console.log("sum       ", result.output("OUTPUT0", "INT32").data.join(" "));
console.log("difference", result.output("OUTPUT1", "INT32").data.join(" "));

process.stdout.write(options.prompt);
const prompt = { text_input: options.prompt, max_tokens: 64, bad_words: "", stop_words: "", stream: true };
for await (const { text_output } of client.model("ensemble").generateStream(prompt, { timeoutMs: 60_000 })) {
  process.stdout.write(text_output);
}
console.log();
