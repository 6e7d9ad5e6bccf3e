/** The request of a playground as curl, Python and TypeScript that do the same. Pure. */
import { jsonText } from "../lib/format.ts";

export interface Snippets {
  readonly curl: string;
  readonly Python: string;
  readonly TypeScript: string;
}

export interface SnippetServer {
  /** With scheme and port, without a slash at the end. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A body of `/v1/chat/completions`. */
export interface ChatBody {
  readonly model: string;
  readonly messages: readonly unknown[];
  readonly stream?: boolean;
  readonly [option: string]: unknown;
}

export interface TensorInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

export interface InferBody {
  readonly id?: string;
  readonly inputs: readonly TensorInput[];
  readonly [field: string]: unknown;
}

export function chatSnippets(server: SnippetServer, body: ChatBody): Snippets {
  const shown = withShortImages(body);
  const { model, messages, stream = false, ...options } = shown;
  const base = `${server.url}/v1`;
  const key = server.headers.authorization?.replace(/^Bearer /, "") ?? "none";
  const pythonOptions = Object.entries(options).map(([name, value]) => `    ${name}=${pythonValue(value, 1)},\n`);
  return {
    curl: curlText(`${base}/chat/completions`, server.headers, shown, stream),
    Python: `from openai import OpenAI

client = OpenAI(base_url=${pythonValue(base)}, api_key=${pythonValue(key)})
answer = client.chat.completions.create(
    model=${pythonValue(model)},
    messages=${pythonValue(messages, 1)},
${pythonOptions.join("")}    stream=${stream ? "True" : "False"},
)
${stream ? 'for part in answer:\n    if part.choices:\n        print(part.choices[0].delta.content or "", end="", flush=True)' : "print(answer.choices[0].message.content)"}
`,
    TypeScript: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: ${JSON.stringify(key)} });
const answer = await client.chat.completions.create(${scriptValue(shown)});
${stream ? 'for await (const part of answer) {\n  process.stdout.write(part.choices[0]?.delta.content ?? "");\n}' : "console.log(answer.choices[0]?.message.content);"}
`,
  };
}

export function inferSnippets(server: SnippetServer, model: string, body: InferBody): Snippets {
  const url = `${server.url}/v2/models/${encodeURIComponent(model)}/infer`;
  return {
    curl: curlText(url, server.headers, body, false),
    Python: pythonInfer(server, model, body.inputs),
    TypeScript: scriptInfer(server, model, body.inputs),
  };
}

const NUMPY: Readonly<Record<string, string>> = {
  BOOL: "bool_",
  UINT8: "uint8",
  UINT16: "uint16",
  UINT32: "uint32",
  UINT64: "uint64",
  INT8: "int8",
  INT16: "int16",
  INT32: "int32",
  INT64: "int64",
  FP16: "float16",
  FP32: "float32",
  FP64: "float64",
  BYTES: "object_",
  // numpy has no bfloat16: the client takes float32 for it.
  BF16: "float32",
};

function pythonInfer({ url, headers }: SnippetServer, model: string, inputs: readonly TensorInput[]): string {
  const isSecure = url.startsWith("https:");
  const made = inputs.map(({ name, datatype, shape, data }) => {
    const array = `np.array(${pythonValue(data)}, dtype=np.${NUMPY[datatype] ?? "float32"}).reshape(${pythonValue(shape)})`;
    return `tensor = httpclient.InferInput(${pythonValue(name)}, ${pythonValue(shape)}, ${pythonValue(datatype)})
tensor.set_data_from_numpy(${array})
inputs.append(tensor)
`;
  });
  const given = Object.keys(headers).length === 0 ? "" : `, headers=${pythonValue(headers)}`;
  return `import numpy as np
import tritonclient.http as httpclient

client = httpclient.InferenceServerClient(${pythonValue(url.replace(/^https?:\/\//, ""))}${isSecure ? ", ssl=True" : ""})
inputs = []
${made.join("")}result = client.infer(${pythonValue(model)}, inputs${given})
for output in result.get_response()["outputs"]:
    print(output["name"], result.as_numpy(output["name"]))
`;
}

const ARRAYS: Readonly<Record<string, string>> = {
  BOOL: "Uint8Array",
  UINT8: "Uint8Array",
  UINT16: "Uint16Array",
  UINT32: "Uint32Array",
  UINT64: "BigUint64Array",
  INT8: "Int8Array",
  INT16: "Int16Array",
  INT32: "Int32Array",
  INT64: "BigInt64Array",
  FP16: "Uint16Array",
  FP32: "Float32Array",
  FP64: "Float64Array",
  BF16: "Uint16Array",
};

function scriptInfer({ url, headers }: SnippetServer, model: string, inputs: readonly TensorInput[]): string {
  const given = Object.keys(headers).length === 0 ? "" : `, headers: ${JSON.stringify(headers)}`;
  const made = inputs.map(
    ({ name, datatype, shape, data }) =>
      `    tensor(${JSON.stringify(name)}, ${JSON.stringify(datatype)}, ${JSON.stringify(shape)}, ${elements(datatype, data)}),\n`,
  );
  const hasHalves = inputs.some(({ datatype }) => datatype === "FP16" || datatype === "BF16");
  return `import { NereidClient, tensor } from "@nereid/client";

const client = new NereidClient({ url: ${JSON.stringify(url)}${given} });
${hasHalves ? "// FP16 and BF16 are patterns of 16 bits.\n" : ""}const result = await client.model(${JSON.stringify(model)}).infer({
  inputs: [
${made.join("")}  ],
});
for (const { name, data } of result.outputs) console.log(name, data);
`;
}

function elements(datatype: string, data: readonly unknown[]): string {
  const array = ARRAYS[datatype];
  if (array === undefined) return JSON.stringify(data);
  const isBig = array.startsWith("Big");
  const shown = data.map((value) => (typeof value === "boolean" ? Number(value) : isBig ? `${value}n` : value));
  return `${array}.of(${shown.join(", ")})`;
}

function curlText(url: string, headers: Readonly<Record<string, string>>, body: unknown, isStream: boolean): string {
  const given = Object.entries({ "content-type": "application/json", ...headers });
  const lines = [
    `curl${isStream ? " --no-buffer" : ""} ${shellText(url)}`,
    ...given.map(([name, value]) => `  -H ${shellText(`${name}: ${value}`)}`),
    `  -d ${shellText(jsonText(body))}`,
  ];
  return `${lines.join(" \\\n")}\n`;
}

/** One word of a POSIX shell, whatever is in it. */
function shellText(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const INDENT = "    ";

/** A literal of Python. `depth`: levels of indentation around it; absent = one line. */
export function pythonValue(value: unknown, depth?: number): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object") return String(value);
  const parts = Array.isArray(value)
    ? value.map((each) => pythonValue(each, depth === undefined ? undefined : depth + 1))
    : Object.entries(value).map(
        ([name, each]) => `${JSON.stringify(name)}: ${pythonValue(each, depth === undefined ? undefined : depth + 1)}`,
      );
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (depth === undefined || parts.length === 0 || parts.join(", ").length < 60) {
    return `${open}${parts.join(", ")}${close}`;
  }
  const inner = INDENT.repeat(depth + 1);
  return `${open}\n${parts.map((part) => `${inner}${part},\n`).join("")}${INDENT.repeat(depth)}${close}`;
}

function scriptValue(value: unknown): string {
  return jsonText(value).replace(/^( *)"([A-Za-z_]\w*)":/gm, "$1$2:");
}

const MAX_SHOWN_URL = 80;

/** Images are data in the request; a snippet shows where to put one. */
function withShortImages<T>(value: T): T {
  const short = (key: string, each: unknown): unknown =>
    key === "url" && typeof each === "string" && each.length > MAX_SHOWN_URL && each.startsWith("data:")
      ? `${each.slice(0, each.indexOf(",") + 1)}<base64 of the image>`
      : each;
  return JSON.parse(JSON.stringify(value, short)) as T;
}
