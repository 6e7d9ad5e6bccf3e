/**
 * Models in Python, and a client, that users of Triton wrote into notes of their own: taken out of the notes as they stand, with
 * a small model in place of the path that they name. The notes are not part of this repository.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { LANGUAGE_MODEL } from "../support/llm-pipeline.ts";
import { createModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { type Outcome, outcomeOf, postJson, runPython, timed } from "./outcome.ts";

const CUDA_MEANS_CPU = new URL("cuda-means-cpu", import.meta.url).pathname;
const PROMPTS = ["The quick brown fox jumps", "Once upon a time"];
const NUM_TOKENS = 12;
const NUM_TIMED = 5;

export interface Notes {
  /** A model that loads a Mistral by its path. */
  readonly mistral: string;
  /** A model around a pipeline of transformers, its configuration, and a gRPC client for it. */
  readonly llama: string;
  readonly llamaConfig: string;
  readonly client: string;
}

/** Undefined where there are none. @throws Error when they do not hold what is expected */
export function readNotes(folder: string): Notes | undefined {
  if (!existsSync(folder)) return undefined;
  const texts = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
  const blocks = texts.flatMap((text) =>
    [...text.matchAll(/^```\w*[ ]*\n(.*?)^```/gms)].map(([, block]) => block ?? ""),
  );
  const files = texts.flatMap((text) => [...text.matchAll(/^cat<<'EOF'>(\S+)\n(.*?)^EOF$/gms)]);
  return {
    mistral: expectOne(
      "a Mistral",
      blocks.filter((block) => block.includes('from_pretrained("/models/hf/mistral")')),
    ).replaceAll(/^ {4}/gm, ""),
    llama: expectOne("llama-python/1/model.py", heredocs(files, "llama-python/1/model.py")),
    llamaConfig: expectOne("llama-python/config.pbtxt", heredocs(files, "llama-python/config.pbtxt")),
    client: expectOne(
      "a gRPC client",
      blocks.filter((block) => block.includes("async_stream_infer")),
    ),
  };
}

function heredocs(files: readonly RegExpMatchArray[], path: string): string[] {
  return files.filter(([, target]) => target?.endsWith(path)).map(([, , content]) => content ?? "");
}

function expectOne(what: string, found: readonly string[]): string {
  const [only] = found;
  if (only === undefined || found.length > 1)
    throw new Error(`the notes hold ${found.length} times ${what}, expected 1`);
  return only;
}

export interface NotesOptions {
  readonly python: string;
  /** Folder of a Mistral, or of another decoder with its tokenizer. */
  readonly mistralFolder: string;
  readonly hasGpu: boolean;
}

/** A server with both models, which loads torch twice: give it a minute. */
export async function serveNotes(
  notes: Notes,
  { python, mistralFolder, hasGpu }: NotesOptions,
  use: (server: ServerProcess, folder: string) => Promise<void>,
): Promise<void> {
  const kind = hasGpu ? "KIND_GPU" : "KIND_CPU";
  const onCpu = (config: string): string =>
    hasGpu ? config : config.replace("kind: KIND_GPU", "kind: KIND_CPU").replace(/gpus: \[.*\]/, "");
  await using repository = await createModelRepository({
    files: {
      "mistral/config.pbtxt": `name: "mistral" backend: "python" max_batch_size: 4
input { name: "text_input" data_type: TYPE_STRING dims: 1 } output { name: "text_output" data_type: TYPE_STRING dims: 1 }
instance_group { kind: ${kind} }`,
      "mistral/1/model.py": notes.mistral.replaceAll("/models/hf/mistral", mistralFolder),
      "llama-python/config.pbtxt": onCpu(notes.llamaConfig.replace(/(string_value: ").*(")/, `$1${LANGUAGE_MODEL}$2`)),
      "llama-python/1/model.py": notes.llama,
      "client.py": notes.client,
    },
  });
  const env = { NEREID_PYTHON: python, ...(hasGpu ? {} : { PYTHONPATH: CUDA_MEANS_CPU }) };
  const server = await startServerProcess({ repositories: [repository.path], env });
  try {
    await use(server, repository.path);
  } finally {
    await server.stop();
  }
}

export async function askMistral(server: ServerProcess, prompts: readonly string[] = PROMPTS): Promise<unknown> {
  const inputs = [{ name: "text_input", datatype: "BYTES", shape: [prompts.length, 1], data: prompts }];
  return dataOf(await postJson(`${server.baseUrl}/v2/models/mistral/infer`, { inputs }));
}

export async function askLlama(server: ServerProcess, prompt: string = PROMPTS[0] ?? ""): Promise<unknown> {
  const inputs = [
    { name: "text_input", datatype: "BYTES", shape: [1], data: [prompt] },
    { name: "max_tokens", datatype: "UINT32", shape: [1], data: [NUM_TOKENS] },
  ];
  return dataOf(await postJson(`${server.baseUrl}/v2/models/llama-python/infer`, { inputs }));
}

/** Output of the notes' client. */
export function runClient(python: string, folder: string, server: ServerProcess): Promise<string> {
  const flags = ["-u", `127.0.0.1:${server.grpc}`, "-p", PROMPTS[0] ?? "", "-o", `${NUM_TOKENS}`, "-m", "llama-python"];
  return runPython(python, [join(folder, "client.py"), ...flags]);
}

function dataOf(answer: Record<string, unknown>): unknown {
  return (answer.outputs as readonly { readonly data: unknown }[])[0]?.data;
}

/** Answers of the libraries without a server for the model of the Mistral note. The other one samples at random. */
async function expectedTexts(python: string, mistralFolder: string): Promise<unknown> {
  const code = `
import json, sys, torch, transformers
prompts, mistral = json.loads(sys.argv[1])
device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = transformers.AutoTokenizer.from_pretrained(mistral)
tokenizer.pad_token = tokenizer.eos_token
model = transformers.AutoModelForCausalLM.from_pretrained(mistral, torch_dtype=torch.bfloat16, device_map="auto").eval()
inputs = tokenizer(prompts, return_tensors="pt", padding=True).to(device)
torch.set_float32_matmul_precision("high")
texts = [tokenizer.decode(o, skip_special_tokens=True) for o in model.generate(**inputs, max_new_tokens=128)]
print(json.dumps(texts))
`;
  const request = JSON.stringify([PROMPTS, mistralFolder]);
  const lines = (await runPython(python, ["-c", code, request])).trim().split("\n");
  return JSON.parse(lines.at(-1) ?? "");
}

/** A Mistral of random weights with the tokenizer of the examples. */
async function makeMistral(python: string, folder: string): Promise<void> {
  const code = `
import shutil, sys, torch
from transformers import MistralConfig, MistralForCausalLM
torch.manual_seed(1)
config = MistralConfig(
    vocab_size=6144, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
MistralForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(sys.argv[2] + "/" + name, sys.argv[1])
`;
  await runPython(python, ["-c", code, folder, LANGUAGE_MODEL]);
}

export async function checkNotes(folder: string, python: string): Promise<Outcome[]> {
  const notes = readNotes(folder);
  if (notes === undefined) return [];
  await using scratch = await createModelRepository({});
  const mistralFolder = join(scratch.path, "mistral");
  await makeMistral(python, mistralFolder);
  const hasGpu = (await runPython(python, ["-c", "import torch; print(torch.cuda.is_available())"])).includes("True");
  const expected = await expectedTexts(python, mistralFolder);
  const note = hasGpu ? {} : { note: "on a machine without a GPU: KIND_CPU, and the device 'cuda' is the processor" };
  const outcomes: Outcome[] = [];
  await serveNotes(notes, { python, mistralFolder, hasGpu }, async (server, files) => {
    outcomes.push(
      await outcomeOf("notes: TritonPythonModel of the Mistral note, a batch of 2, 128 tokens", async () => {
        expectSame(await askMistral(server), expected);
        return { msPerRequest: await timed(NUM_TIMED, () => askMistral(server)), ...note };
      }),
      await outcomeOf(`notes: llama-python, ${NUM_TOKENS} tokens`, async () => {
        expectGoesOn(await askLlama(server), PROMPTS[0] ?? "");
        return { msPerRequest: await timed(NUM_TIMED, () => askLlama(server)), ...note };
      }),
      await outcomeOf("notes: the gRPC client of llama-python", async () => {
        const printed = await runClient(python, files, server);
        expectGoesOn([/^b(['"])(.*)\1$/m.exec(printed)?.[2]], PROMPTS[0] ?? "");
        return {};
      }),
    );
    if (hasGpu) outcomes.push(await outcomeOf("notes: one instance for each GPU", async () => instancesOf(server)));
  });
  return outcomes;
}

async function instancesOf(server: ServerProcess): Promise<{ note: string }> {
  const config = (await (await fetch(`${server.baseUrl}/v2/models/mistral/config`)).json()) as Record<string, unknown>;
  const groups = config.instance_group as readonly { readonly kind: string; readonly gpus: readonly number[] }[];
  return { note: JSON.stringify(groups.map(({ kind, gpus }) => ({ kind, gpus }))) };
}

function expectSame(answer: unknown, expected: unknown): void {
  const [got, wanted] = [JSON.stringify(answer), JSON.stringify(expected)];
  if (got !== wanted) throw new Error(`expected ${wanted}, got ${got}`);
}

function expectGoesOn(answer: unknown, prompt: string): void {
  const text = Array.isArray(answer) ? String(answer[0]) : "";
  if (!text.startsWith(prompt) || text.length <= prompt.length)
    throw new Error(`expected more than '${prompt}', got '${text}'`);
}
