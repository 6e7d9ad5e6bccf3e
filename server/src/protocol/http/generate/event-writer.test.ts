import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonWriter } from "@nereid/wire";
import { packBytesElements } from "../../../core/bytes-tensor.ts";
import { NO_PARAMETERS } from "../../../core/infer-request.ts";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { EventWriter } from "./event-writer.ts";
import { writeGenerateResponse } from "./generate-response.ts";

const LENGTH: Tensor = ints("sequence_length", [1]);
const INDEX: Tensor = ints("batch_index", [0]);
const PARAMETERS = new Map([["sequence_id", 0]]);

function ints(name: string, values: readonly number[]): Tensor {
  return {
    name,
    datatype: "INT32",
    shape: [1, values.length],
    data: new Uint8Array(Int32Array.from(values).buffer),
  };
}

function text(value: string): Tensor {
  return { name: "text_output", datatype: "BYTES", shape: [1], data: packBytesElements([value]) };
}

function response(outputs: readonly Tensor[], changes: Partial<InferResponse> = {}): InferResponse {
  const head = { modelName: "m", modelVersion: "1", id: "", parameters: NO_PARAMETERS };
  return { ...head, outputs, final: false, empty: false, ...changes };
}

/** Streams of responses, each written behind the one before it. */
const STREAMS: Readonly<Record<string, readonly InferResponse[]>> = {
  "only a tensor of numbers changes": [7, 8, 90, -1].map((id) => response([ints("output_ids", [id]), LENGTH, INDEX])),
  "only a text changes": ["a", 'b"\n', "", "é"].map((part) => response([LENGTH, text(part), INDEX])),
  "the first and the last members change": ["x", "y", "z"].map((part, i) =>
    response([ints("a_first", [i]), LENGTH, text(part)]),
  ),
  "lengths change": [[1], [1, 2], [], [3]].map((ids) => response([ints("output_ids", ids), LENGTH])),
  "a tensor that stayed changes later": [
    ...[1, 2, 3].map((id) => response([ints("output_ids", [id]), LENGTH])),
    ...[4, 5, 6].map((id) => response([ints("output_ids", [id]), ints("sequence_length", [id])])),
  ],
  "the order changes": [
    ...[1, 2, 3].map((id) => response([ints("output_ids", [id]), LENGTH])),
    ...[4, 5].map((id) => response([LENGTH, ints("output_ids", [id])])),
  ],
  "outputs come and go": [
    ...[1, 2, 3].map((id) => response([ints("output_ids", [id]), LENGTH])),
    response([LENGTH]),
    ...[4, 5].map((id) => response([ints("output_ids", [id]), LENGTH, INDEX])),
  ],
  "parameters come": [
    ...[1, 2, 3].map((id) => response([ints("output_ids", [id]), LENGTH])),
    ...[4, 5, 6].map((id) => response([ints("output_ids", [id]), LENGTH], { parameters: PARAMETERS })),
  ],
  "a tensor has a reserved name": ["1", "2", "3"].map((name, i) =>
    response([ints("model_version", [i]), text(name)], { id: "r" }),
  ),
  "two tensors have one name": [1, 2, 3].map((id) => response([ints("a", [id]), ints("a", [id + 1]), LENGTH])),
};

for (const [what, responses] of Object.entries(STREAMS)) {
  test(`EventWriter writes what writeGenerateResponse() does when ${what}`, () => {
    const [events, writer] = [new EventWriter(), new JsonWriter()];
    for (const one of responses) {
      writer.begin();
      writer.raw("data: ");
      events.write(writer, one);
      const written = Buffer.from(writer.finish()).toString();
      writer.begin();
      writeGenerateResponse(writer, one);
      assert.equal(written, `data: ${Buffer.from(writer.finish())}`);
    }
  });
}

test("EventWriter reports a tensor without a JSON form each time", () => {
  const bad = (): Tensor => ({ name: "h", datatype: "FP16", shape: [1], data: new Uint8Array(2) });
  const [events, writer] = [new EventWriter(), new JsonWriter()];
  for (let i = 0; i < 3; i++) {
    writer.begin();
    assert.throws(() => events.write(writer, response([bad(), LENGTH])), /FP16 data via JSON is not supported/);
  }
});
