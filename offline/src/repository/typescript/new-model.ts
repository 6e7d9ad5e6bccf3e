/** A TypeScript model to start with: configuration, code, and the types of both. */
import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { openAtomicFolder } from "@nereid/server/files/atomic-output";
import { ToolError } from "@nereid/server/files/tool-error";
import { writeTypes } from "./write-types.ts";

export const MODEL_KINDS = ["plain", "stream", "sequence"] as const;
export type ModelKind = (typeof MODEL_KINDS)[number];

interface Beginning {
  readonly config: string;
  readonly code: string;
}

const IMPORT = 'import type { Model } from "../../model-types.d.ts";\n';

const BEGINNINGS: Readonly<Record<ModelKind, Beginning>> = {
  plain: {
    config: `backend: "typescript"
max_batch_size: 8
dynamic_batching { }

input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [
  { name: "LENGTH" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "UPPER" data_type: TYPE_STRING dims: [ 1 ] }
]
`,
    code: `${IMPORT}
export const execute: Model["execute"] = ({ inputs: { TEXT } }) => ({
  LENGTH: TEXT.strings.map((text) => text.length),
  UPPER: TEXT.strings.map((text) => text.toUpperCase()),
});
`,
  },
  stream: {
    config: `backend: "typescript"
model_transaction_policy { decoupled: true }

input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "WORD" data_type: TYPE_STRING dims: [ 1 ] } ]
`,
    code: `${IMPORT}
export const execute: Model["execute"] = async function* ({ inputs: { TEXT } }) {
  for (const word of (TEXT.strings[0] ?? "").split(" ")) yield { WORD: word };
};
`,
  },
  sequence: {
    config: `backend: "typescript"
max_batch_size: 8
sequence_batching { }

input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "TOTAL" data_type: TYPE_FP32 dims: [ 1 ] } ]
`,
    code: `${IMPORT}
export const execute: Model<{ total?: number }>["execute"] = ({ inputs: { X }, state }) => {
  state.total = (state.total ?? 0) + (X.data[0] ?? 0);
  return { TOTAL: state.total };
};
`,
  },
};

/**
 * `path`: the folder of the model, inside a repository. Returns the written files. @throws ToolError when it exists
 * already
 */
export async function newModel(path: string, kind: ModelKind, replaces = false): Promise<readonly string[]> {
  const folder = resolve(path);
  const name = basename(folder);
  if (!/^[\w.-]+$/.test(name)) {
    throw new ToolError(`the name of a model may contain only letters, digits and the signs _ . -, got '${name}'`);
  }
  await mkdir(dirname(folder), { recursive: true });
  const { config, code } = BEGINNINGS[kind];
  await using target = await openAtomicFolder(folder, { existing: replaces ? "replace" : "refuse" });
  await mkdir(join(target.path, "1"));
  await writeFile(join(target.path, "config.pbtxt"), config);
  await writeFile(join(target.path, "1/model.ts"), code);
  await target.commit();
  const types = (await writeTypes(dirname(folder))).find((written) => written.model === name);
  return [join(folder, "config.pbtxt"), join(folder, "1/model.ts"), ...(types === undefined ? [] : [types.path])];
}
