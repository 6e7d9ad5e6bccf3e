/** The client where there is no Node: bundled as for a browser, run in a context with nothing but the language and the web's names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createContext, runInContext } from "node:vm";
import { build } from "esbuild";

const ENTRY = fileURLToPath(new URL("../../client/src/index.ts", import.meta.url));
const HEAD =
  '{"model_name":"m","outputs":[{"name":"Y","datatype":"INT32","shape":[1],"parameters":{"binary_data_size":4}}]}';
const EVENTS = 'data: {"t":"é"}\n\ndata: {"t":"b"}\n\n';

/** Stands in for a server. */
function answer(input: unknown): Promise<Response> {
  if (String(input).endsWith("/generate_stream")) return Promise.resolve(new Response(EVENTS));
  const headers = { "inference-header-content-length": String(HEAD.length) };
  return Promise.resolve(new Response(`${HEAD}\u0007\0\0\0`, { headers }));
}

test("the client works without anything of Node", async () => {
  const conditions = ["nereid-source"];
  const options = { bundle: true, write: false, format: "iife", globalName: "nereid", conditions } as const;
  const { outputFiles } = await build({ ...options, platform: "browser", entryPoints: [ENTRY], logLevel: "silent" });
  const context = createContext({
    URL,
    AbortSignal,
    AbortController,
    DOMException,
    performance,
    setTimeout,
    clearTimeout,
    fetch: answer,
  });
  runInContext(outputFiles[0]?.text ?? "", context);
  const use = `(async () => {
    const model = new nereid.NereidClient({ url: "http://localhost" }).model("m");
    const inputs = [nereid.tensor("X", "BYTES", [1], ["é"])];
    const found = [...(await model.infer({ inputs, timeoutMs: 60000 })).output("Y").data];
    for await (const { t } of model.generateStream({})) found.push(t);
    return JSON.stringify([typeof process, typeof Buffer, ...found]);
  })()`;
  assert.equal(await runInContext(use, context), '["undefined","undefined",7,"é","b"]');
});
