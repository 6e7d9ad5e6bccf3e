/**
 * Errors of every route of OpenAI's API: status, `type`, `code`, `param` and the words that clients look for.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openAiRoutes } from "@nereid/server/protocol/openai/openai-api";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { ROWS } from "./error-cases.ts";
import { createScriptedModels } from "./scripted-models.ts";

const LLM = "tensorrt_llm";
let scripted: ModelRepository;
let server: ServerProcess;

before(async () => {
  scripted = await createScriptedModels();
  server = await startServerProcess({ repositories: [EXAMPLES, scripted.path] });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
});

interface Refusal {
  readonly status: number;
  readonly error: Readonly<Record<"message" | "type" | "code" | "param", string | null>>;
}

async function refusalOf(method: string, path: string, body?: string): Promise<Refusal> {
  const response = await fetch(server.baseUrl + path, { method, ...(body === undefined ? {} : { body }) });
  const text = await response.text();
  assert.match(text, /^\{"error":\{"message":/, `${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
  const { error } = JSON.parse(text) as Pick<Refusal, "error">;
  return { status: response.status, error };
}

for (const [what, path, body, status, code, param, message] of ROWS) {
  test(`${path}: ${what} is ${status} ${code} ${param}`, async () => {
    const { status: given, error } = await refusalOf("POST", path, JSON.stringify({ model: LLM, ...body }));
    assert.deepEqual([given, error.type, error.code, error.param], [status, "invalid_request_error", code, param]);
    assert.match(error.message ?? "", message);
  });
}

test("paths below /v1 that are none have OpenAI's error; /v1 itself is Triton's to answer", async () => {
  for (const path of ["/v1/", "/v1/nothing"]) {
    const { status, error } = await refusalOf("GET", path);
    assert.deepEqual([status, error.type, error.message], [404, "invalid_request_error", `Invalid URL (GET ${path})`]);
  }
});

test("GET /v1/models/{model} names its parameter", async () => {
  const { status, error } = await refusalOf("GET", "/v1/models/none");
  assert.deepEqual([status, error.code, error.param], [404, "model_not_found", "model"]);
  assert.equal(error.message, "The model 'none' does not exist");
});

const CONTEXT = { server: undefined, models: undefined } as never;
const WITH_BODY = openAiRoutes(CONTEXT).filter(({ method, body }) => method === "POST" && body !== undefined);

for (const { path } of WITH_BODY) {
  const url = path.replaceAll(/\{\w+\*?\}/g, "none");
  test(`POST ${path} refuses what is no JSON, no object, and another method`, async () => {
    for (const body of ["{", "", "\u0000"]) {
      const { status, error } = await refusalOf("POST", url, body);
      assert.deepEqual([status, error.type, error.code, error.param], [400, "invalid_request_error", null, null]);
      assert.match(error.message ?? "", /^We could not parse the JSON body of your request\./);
    }
    for (const body of ["[]", "3", '"text"', "null"]) {
      const { status, error } = await refusalOf("POST", url, body);
      assert.deepEqual([status, error.code, error.param], [400, "invalid_type", null]);
    }
    const { status, error } = await refusalOf("PATCH", url, "{}");
    assert.deepEqual([status, error.code], [405, "method_not_supported"]);
  });
}

const WITH_MODEL = WITH_BODY.filter(({ body }) => {
  const required: unknown = body?.required;
  return Array.isArray(required) && required.includes("model");
});

for (const { path } of WITH_MODEL) {
  test(`POST ${path} asks for a model, and for one that is a text`, async () => {
    const cases: [body: string, code: string][] = [
      ["{}", "missing_required_parameter"],
      ['{"model":null}', "invalid_type"],
      ['{"model":7}', "invalid_type"],
    ];
    for (const [body, code] of cases) {
      const { status, error } = await refusalOf("POST", path, body);
      assert.deepEqual([status, error.type, error.code, error.param], [400, "invalid_request_error", code, "model"]);
    }
  });
}
