/** Models in TypeScript for the tests of their backend: the files of a repository. */

const ADD_SUB = `
import type { Model } from "../model-types.d.ts";
import { zip } from "./zip.ts";

export const execute: Model["execute"] = ({ inputs: { A, B } }) => ({
  SUM: zip(A.data, B.data, (a, b) => a + b),
  DIFF: zip(A.data, B.data, (a, b) => a - b),
});
`;

const ZIP = `
export function zip(a: Int32Array, b: Int32Array, join: (a: number, b: number) => number): Int32Array {
  return a.map((value, index) => join(value, b[index] ?? 0));
}
`;

const COUNT = `
import type { Model } from "../model-types.d.ts";

const model: Model = {
  async *execute({ inputs, signal }) {
    let value = 0;
    try {
      for (; value < (inputs.N.data[0] ?? 0); value += 1) yield { VALUE: value };
    } finally {
      console.log("stopped at " + value + ", cancelled: " + signal.aborted);
    }
  },
};
export default model;
`;

const CALLER = `
import type { Model } from "../model-types.d.ts";

export const execute: Model["execute"] = async ({ inputs, models }) => {
  const { SUM } = await models.add_sub.infer({ A: inputs.A.data, B: [10, 20, 30, 40] });
  const counted: string[] = [];
  for await (const { VALUE } of models.count.stream({ N: 100 })) counted.push(...VALUE.strings);
  const missing = await models["no-such"].infer({}).catch((error: Error) => error.message);
  return { SUM, TEXT: [counted.length + " values to " + counted.at(-1), String(missing)] };
};
`;

const TOTAL = `
import type { Model } from "../model-types.d.ts";

export const execute: Model<{ total?: number }>["execute"] = ({ inputs, state }) => {
  if (inputs.X.data[0] === -1) process.exit(1);
  state.total = (state.total ?? 0) + (inputs.X.data[0] ?? 0);
  return { TOTAL: state.total };
};
`;

const GROUPED = `
import type { Model } from "../model-types.d.ts";

export const executeBatch: Model["executeBatch"] = async (requests) => {
  await new Promise((resolve) => setTimeout(resolve, 200));
  return requests.map(({ inputs }) =>
    inputs.X.data[0] === 7 ? new Error("seven is refused alone") : { TOGETHER: requests.length },
  );
};
`;

const GROUPED_STRATEGY = `
import type { BatchStrategy } from "../model-types.d.ts";

export const startBatch: BatchStrategy<{ count: number }>["startBatch"] = () => ({ count: 0 });
export const includeRequest: BatchStrategy<{ count: number }>["includeRequest"] = (batch, { inputs }) => {
  batch.count += inputs.X?.datatype === "INT32" ? 1 : 100;
  return batch.count <= 2;
};
`;

const MISCHIEF = `
import type { Context, Model } from "../model-types.d.ts";

enum Mood { Calm, Wild }

let seen: ReturnType<Context["metrics"]["counter"]>;
const model: Model = {
  initialize({ metrics, log, name }) {
    seen = metrics.counter("mischief_total", "Requests by what they asked for");
    log.info("initialized " + name);
  },
  async execute({ inputs, signal }, context) {
    const what = inputs.WHAT.strings[0] ?? "";
    seen.increment(1, { what });
    if (what === "throw") throw new Error("thrown on purpose");
    if (what === "refuse") throw context.error("invalid_argument", "refused on purpose");
    if (what === "exit") process.exit(3);
    if (what === "later") setTimeout(() => { throw new Error("thrown later"); }, 0);
    if (what === "later") await new Promise(() => {});
    while (what === "loop");
    console.log("printed for " + what);
    return { ANSWER: [Mood[Mood.Calm] + " " + what] };
  },
  finalize({ log }) {
    log.info("finalized");
  },
};
export default model;
`;

function tensors(list: readonly (readonly [name: string, type: string, dims: string])[]): string {
  return list.map(([name, type, dims]) => `{ name: "${name}" data_type: TYPE_${type} dims: [${dims}] }`).join(", ");
}

function config(inputs: Parameters<typeof tensors>[0], outputs: Parameters<typeof tensors>[0], rest = ""): string {
  const group = "instance_group [{ kind: KIND_CPU }]";
  return `backend: "typescript" input [${tensors(inputs)}] output [${tensors(outputs)}] ${group} ${rest}`;
}

const INT4 = "4";

export const MODEL_FILES: Readonly<Record<string, string>> = {
  "add_sub/config.pbtxt": config(
    [
      ["A", "INT32", INT4],
      ["B", "INT32", INT4],
    ],
    [
      ["SUM", "INT32", INT4],
      ["DIFF", "INT32", INT4],
    ],
    "max_batch_size: 8 dynamic_batching {}",
  ),
  "add_sub/1/model.ts": ADD_SUB,
  "add_sub/1/zip.ts": ZIP,
  "count/config.pbtxt": config(
    [["N", "INT32", "1"]],
    [["VALUE", "INT32", "1"]],
    "model_transaction_policy { decoupled: true }",
  ),
  "count/1/model.ts": COUNT,
  "caller/config.pbtxt": config(
    [["A", "INT32", INT4]],
    [
      ["SUM", "INT32", "-1, 4"],
      ["TEXT", "STRING", "-1"],
    ],
  ),
  "caller/1/model.ts": CALLER,
  "total/config.pbtxt": config(
    [["X", "INT32", "1"]],
    [["TOTAL", "INT32", "1"]],
    "max_batch_size: 4 sequence_batching {}",
  ),
  "total/1/model.ts": TOTAL,
  "grouped/config.pbtxt": config(
    [["X", "INT32", "1"]],
    [["TOGETHER", "INT32", "1"]],
    "max_batch_size: 8 dynamic_batching {}",
  ),
  "grouped/1/model.ts": GROUPED,
  "grouped/1/batchstrategy.ts": GROUPED_STRATEGY,
  "mischief/config.pbtxt": config(
    [["WHAT", "STRING", "1"]],
    [["ANSWER", "STRING", "1"]],
    'parameters { key: "HANG_TIMEOUT_SECONDS" value: { string_value: "1" } }',
  ),
  "mischief/1/model.ts": MISCHIEF,
};
