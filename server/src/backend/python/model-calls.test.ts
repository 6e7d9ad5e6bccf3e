import assert from "node:assert/strict";
import { test } from "node:test";
import { load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { int32, int32Values, TestRequest, textOf } from "../../../../tests/fakes/python-models.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import { ServerError } from "../../core/server-error.ts";
import type { ModelSource } from "../backend.ts";

/** Answers calls of models: `n` of decoupled responses, or a failure. */
function caller(respond: (request: InferRequest) => readonly Partial<InferResponse>[]): ModelSource["models"] {
  return {
    async *infer(request) {
      for (const response of respond(request)) {
        yield {
          modelName: "inner",
          modelVersion: "1",
          id: request.id,
          parameters: new Map(),
          outputs: [],
          final: false,
          empty: false,
          ...response,
        };
      }
    },
    signature: () => assert.fail("nobody asks for it"),
  };
}

test("`exec()` runs another model when a request is made", options, async (t) => {
  const seen: InferRequest[] = [];
  const models = caller((request) => {
    seen.push(request);
    return [{ outputs: [int32("SUM", [42])], parameters: new Map([["p", "q"]]), final: true }];
  });
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    inner = pb_utils.InferenceRequest(model_name="inner", model_version=2, request_id="i", correlation_id="seq", flags=1, timeout=9,
        requested_output_names=["SUM"], inputs=[pb_utils.Tensor("A", np.array([1], dtype=np.int32))], parameters={"k": 1})
    reply = inner.exec()
    assert not reply.has_error() and json.loads(reply.parameters()) == {"p": "q"}
    return [answer(pb_utils.get_output_tensor_by_name(reply, "SUM").as_numpy())]
`,
    { models },
  );
  const request = await runOne(instance, new TestRequest());
  assert.deepEqual(int32Values(request.responses[0]?.outputs[0]), [42], request.errorText);
  const [inner] = seen;
  assert.deepEqual(
    [
      inner?.modelName,
      inner?.modelVersion,
      inner?.id,
      inner?.outputs,
      inner?.sequence,
      inner?.timeoutUs,
      inner?.parameters,
    ],
    ["inner", "2", "i", ["SUM"], { id: "seq", start: true, end: false }, 9, new Map([["k", 1]])],
  );
  assert.deepEqual(int32Values(inner?.inputs[0]), [1]);
});

test("`exec()` gives an error response when the other model fails", options, async (t) => {
  const models = caller(() => {
    throw new ServerError("not_found", "Request for unknown model: 'x' is not found");
  });
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    error = pb_utils.InferenceRequest(model_name="x", requested_output_names=["O"], inputs=[]).exec().error()
    return [text("%s %s" % (error.code() == pb_utils.TritonError.NOT_FOUND, error.message()))]
`,
    { models },
  );
  const request = await runOne(instance, new TestRequest());
  assert.equal(
    textOf(request.responses[0]?.outputs[0]),
    "True Model x - Error when running inference: Failed for execute the inference request. Model 'x' is not ready.",
  );
});

test("`async_exec()` runs calls at the same time when they are gathered", options, async (t) => {
  let waiting = 0;
  let release = (): void => undefined;
  const both = new Promise<void>((resolve) => {
    release = resolve;
  });
  const models: ModelSource["models"] = {
    async *infer(request) {
      waiting += 1;
      if (waiting === 2) release();
      await both;
      yield {
        modelName: "i",
        modelVersion: "1",
        id: request.id,
        parameters: new Map(),
        outputs: [int32("O", [1])],
        final: true,
        empty: false,
      };
    },
    signature: () => assert.fail("nobody asks for it"),
  };
  const { instance } = await load(
    t,
    `
async def execute(self, requests):
    call = lambda: pb_utils.InferenceRequest(model_name="i", requested_output_names=["O"], inputs=[]).async_exec()
    replies = await asyncio.gather(call(), call())
    return [answer([sum(int(r.output_tensors()[0].as_numpy()[0]) for r in replies)])]
`,
    { models },
  );
  const request = await runOne(instance, new TestRequest());
  assert.deepEqual(int32Values(request.responses[0]?.outputs[0]), [2], request.errorText);
});

test("`exec(decoupled=True)` iterates when the other model gives several responses", options, async (t) => {
  const models = caller(() => [
    { outputs: [int32("O", [1])] },
    { error: new ServerError("internal", "one failed") },
    { outputs: [int32("O", [3])] },
    { empty: true, final: true },
  ]);
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    replies = pb_utils.InferenceRequest(model_name="i", requested_output_names=["O"], inputs=[]).exec(decoupled=True)
    return [text(",".join("error" if r.has_error() else str([int(o.as_numpy()[0]) for o in r.output_tensors()]) for r in replies))]
`,
    { models },
  );
  const request = await runOne(instance, new TestRequest());
  assert.equal(textOf(request.responses[0]?.outputs[0]), "[1],error,[3],[]", request.errorText);
});
