import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import { fakeRequest, int32 } from "../../../tests/fakes/requests.ts";
import { signatureOf } from "../core/model-signature.ts";
import { ServerError } from "../core/server-error.ts";
import { StatisticsCounter } from "./model-statistics.ts";
import { ScheduledRequest } from "./scheduled-request.ts";

const SIGNATURE = signatureOf(fakeConfig({ input: [fakeInput("X", [1])], output: [fakeOutput("Y", [1])] }));
const ENDS = ["answer", "failure"] as const;

function begin(): { request: ScheduledRequest; ends: () => number; statistics: StatisticsCounter } {
  const statistics = new StatisticsCounter();
  const context = { signature: SIGNATURE, version: "1", statistics, decoupled: false, reshapesOutputs: false };
  const request = new ScheduledRequest(fakeRequest([int32("X", [1], [1])]), 1, context);
  let numEnds = 0;
  request.onEnd = () => {
    numEnds += 1;
  };
  return { request, ends: () => numEnds, statistics };
}

function end(request: ScheduledRequest, how: (typeof ENDS)[number]): void {
  if (how === "answer") request.respond({ outputs: [int32("Y", [1], [2])], final: true });
  else request.fail(new ServerError("internal", "x"));
}

async function outcome(request: ScheduledRequest): Promise<string> {
  try {
    const answers = [];
    for await (const answer of request.stream) answers.push(answer);
    return `${answers.length} answers`;
  } catch {
    return "failure";
  }
}

for (const first of ENDS) {
  for (const second of ENDS) {
    test(`a request ends once: ${first}, then ${second}`, async () => {
      const { request, ends, statistics } = begin();
      request.dequeued(1);
      end(request, first);
      end(request, second);
      const timing = { startMs: 1, computeStartMs: 1, computeEndMs: 2, endMs: 2 };
      request.executed(timing as Parameters<ScheduledRequest["executed"]>[0]);
      assert.equal(await outcome(request), first === "answer" ? "1 answers" : "failure");
      assert.equal(ends(), 1);
      await turn();
      const { inference_stats } = statistics.snapshot("m", "1");
      const counted = [inference_stats.success.count, inference_stats.fail.count].map(Number);
      assert.deepEqual(counted, first === "answer" ? [1, 0] : [0, 1]);
    });
  }
}
