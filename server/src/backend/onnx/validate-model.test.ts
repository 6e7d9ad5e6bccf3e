import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import type { ModelInfo, ValueInfo } from "../../native/onnxruntime/info.ts";
import { elementTypeOf } from "../../native/onnxruntime/types.ts";
import { describeModel } from "./model-values.ts";
import { validateModel } from "./validate-model.ts";

const value = (name: string, datatype: Parameters<typeof elementTypeOf>[0], dims: readonly number[]): ValueInfo => ({
  name,
  kind: "TENSOR",
  elementType: elementTypeOf(datatype),
  dims,
  dimNames: dims.map(() => ""),
});
const info = (parts: Partial<ModelInfo>): ModelInfo => ({
  inputs: [value("X", "FP32", [-1, 2])],
  outputs: [value("Y", "FP32", [-1, 2])],
  overridableInitializers: [],
  ...parts,
});
const X = 'input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]';
const Y = 'output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]';
const config = (text: string) => parseModelConfigText(`name: "m" ${text}`, "config.pbtxt");
const sequence = (control: string): string =>
  `max_batch_size: 4 ${X} ${Y} sequence_batching { control_input [ { name: "S" control [ { ${control} } ] } ] }`;
const START = "kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ]";
const withControl = (datatype: Parameters<typeof elementTypeOf>[0], dims: readonly number[]): ModelInfo =>
  info({ inputs: [value("X", "FP32", [-1, 2]), value("S", datatype, dims)] });
const SEQUENCE_VALUE: ValueInfo = { ...value("Y", "FP32", []), kind: "SEQUENCE" };

test("validateModel() accepts what fits", () => {
  const table: [string, ModelInfo][] = [
    [`max_batch_size: 4 ${X} ${Y}`, info({})],
    [
      'input [ { name: "X" data_type: TYPE_FP32 dims: [ 5, 2 ] } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1, 2 ] } ]',
      info({}),
    ],
    [
      'input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]',
      info({ inputs: [value("X", "FP32", [])], outputs: [value("Y", "FP32", [])] }),
    ],
    [
      'max_batch_size: 2 input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]',
      info({ inputs: [value("X", "FP32", [-1])], outputs: [value("Y", "FP32", [-1])] }),
    ],
    [
      `input [ { name: "X" data_type: TYPE_FP32 dims: [ -1, 2 ] }, { name: "w" data_type: TYPE_FP32 dims: [ 2 ] optional: true } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1, 2 ] } ]`,
      info({ overridableInitializers: [value("w", "FP32", [2])] }),
    ],
    [sequence(START), withControl("INT32", [-1, 1])],
    [sequence("kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ]"), withControl("BOOL", [-1, 1])],
    [sequence("kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ]"), withControl("FP32", [-1, 1])],
    [sequence("kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING"), withControl("BYTES", [-1, 1])],
    [
      `max_batch_size: 4 ${X} ${Y} sequence_batching { state [ { input_name: "SI" output_name: "SO" data_type: TYPE_INT32 dims: [ 1 ] } ] }`,
      info({
        inputs: [value("X", "FP32", [-1, 2]), value("SI", "INT32", [-1, 1])],
        outputs: [value("Y", "FP32", [-1, 2]), value("SO", "INT32", [-1, 1])],
      }),
    ],
  ];
  for (const [text, model] of table) validateModel(config(text), model);
});

test("validateModel() refuses with Triton's words", () => {
  const table: [string, ModelInfo, string, string][] = [
    [
      `max_batch_size: 4 ${Y}`,
      info({}),
      "invalid_argument",
      "unable to load model 'm', configuration expects 0 inputs, model provides 1",
    ],
    [
      `max_batch_size: 4 input [ { name: "Z" data_type: TYPE_FP32 dims: [ 2 ] } ] ${Y}`,
      info({}),
      "invalid_argument",
      "unexpected inference input 'Z', allowed inputs are: X",
    ],
    [
      `max_batch_size: 4 ${X} output [ { name: "W" data_type: TYPE_FP32 dims: [ 2 ] } ]`,
      info({ outputs: [value("b", "FP32", [-1, 2]), value("a", "FP32", [-1, 2])] }),
      "invalid_argument",
      "unexpected inference output 'W', allowed outputs are: a, b",
    ],
    [
      `max_batch_size: 4 input [ { name: "X" data_type: TYPE_INT32 dims: [ 2 ] } ] ${Y}`,
      info({}),
      "invalid_argument",
      "unable to load model 'm', configuration expects datatype TYPE_INT32 for input 'X', model provides TYPE_FP32",
    ],
    [
      `max_batch_size: 4 ${X} output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]`,
      info({ outputs: [value("Y", "BYTES", [-1, 2])] }),
      "invalid_argument",
      "unable to load model 'm', configuration expects datatype TYPE_FP32 for output 'Y', model provides TYPE_BYTES",
    ],
    [
      `max_batch_size: 4 input [ { name: "X" data_type: TYPE_FP32 dims: [ 3 ] } ] ${Y}`,
      info({}),
      "invalid_argument",
      "model 'm', tensor 'X': the model expects 2 dimensions (shape [-1,2]) but the model configuration specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,3])",
    ],
    [
      `${X} ${Y}`,
      info({}),
      "invalid_argument",
      "model 'm', tensor 'X': the model expects 2 dimensions (shape [-1,2]) but the model configuration specifies 1 dimensions (shape [2])",
    ],
    [
      `input [ { name: "X" data_type: TYPE_FP32 dims: [ -1, 2 ] } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ 5, 2 ] } ]`,
      info({}),
      "invalid_argument",
      "model 'm', tensor 'Y': the model expects 2 dimensions (shape [-1,2]) but the model configuration specifies 2 dimensions (shape [5,2])",
    ],
    [
      `max_batch_size: 4 ${X} ${Y}`,
      info({ inputs: [value("X", "FP32", [3, 2])] }),
      "invalid_argument",
      "model 'm', tensor 'X': for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is [3,2]",
    ],
    [
      `${X} ${Y}`,
      info({ inputs: [value("X", "FP32", [])] }),
      "invalid_argument",
      "unable to load model 'm', scalar tensor 'X', should only provide 1 in the model configuration when the model doesn't support batching. Model configuration provided: [2].",
    ],
    [
      `max_batch_size: 4 input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "w" data_type: TYPE_FP32 dims: [ 2 ] optional: true } ] ${Y}`,
      info({ overridableInitializers: [value("w", "FP32", [2])] }),
      "invalid_argument",
      "unable to load model 'm', optional input 'w' is not supported for models that support batching",
    ],
    [
      `max_batch_size: 4 input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] allow_ragged_batch: true } ] ${Y}`,
      info({}),
      "invalid_argument",
      "unable to load model 'm', ragged input 'X': the model must have shape [-1] for it, got [-1,2]",
    ],
    [
      `max_batch_size: 4 ${X} ${Y} batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_INT32 source_input: "X" } ]`,
      info({}),
      "invalid_argument",
      "unexpected inference input 'N', allowed inputs are: X",
    ],
    [
      sequence(START),
      info({}),
      "internal",
      "configuration specified sequence control 'S', but model does not provide that input",
    ],
    [
      sequence(START),
      withControl("INT32", [-1, 2]),
      "invalid_argument",
      "unable to load model 'm', sequence control 'S' in model has dims [2] but dims [1] is expected",
    ],
    [
      sequence(START),
      withControl("FP32", [-1, 1]),
      "invalid_argument",
      "unable to load model 'm', sequence control 'S', the model expects data-type FLOAT but the model configuration specifies data-type TYPE_INT32",
    ],
    [
      `max_batch_size: 4 ${X} ${Y}`,
      info({ outputs: [SEQUENCE_VALUE] }),
      "unsupported",
      "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'Y', expected 'ONNX_TYPE_TENSOR'.",
    ],
  ];
  for (const [text, model, code, message] of table) {
    assert.throws(() => validateModel(config(text), model), { name: "ServerError", code, message });
  }
});

test("describeModel() tells whether a model can batch", () => {
  const table: [Partial<ModelInfo>, boolean][] = [
    [{}, true],
    [{ inputs: [value("X", "FP32", [2, 2])] }, false],
    [{ inputs: [value("X", "FP32", [])] }, false],
    [{ outputs: [value("Y", "FP32", [1, -1])] }, false],
  ];
  for (const [parts, canBatch] of table) assert.equal(describeModel(info(parts)).canBatch, canBatch);
  assert.deepEqual(describeModel(info({ inputs: [value("s", "BYTES", [-1, -1])] })).inputs, [
    { name: "s", dataType: "TYPE_STRING", dims: [-1, -1] },
  ]);
  assert.throws(() => describeModel(info({ outputs: [SEQUENCE_VALUE] })), { code: "unsupported" });
});
