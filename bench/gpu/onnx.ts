/**
 * The ONNX models of the examples on a GPU beside the same on the CPU, through a server with an ONNX Runtime that has CUDA:
 * `node onnx.mjs --program=<nereid.cjs> --library=<libonnxruntime.so>`. Prints how far answers differ and how long they take.
 */
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { newRepository } from "./served-repository.ts";
import { startServer } from "./served-server.ts";

const { values: flags } = parseArgs({
  options: {
    program: { type: "string", default: "" },
    library: { type: "string", default: "" },
    examples: { type: "string", default: "examples" },
    work: { type: "string", default: "/tmp/onnx" },
    rows: { type: "string", default: "16" },
    port: { type: "string", default: "18480" },
  },
});

const PORT = Number(flags.port);
const ROWS = Number(flags.rows);
const ROUNDS = 20;
const PLACES = { cpu: "kind: KIND_CPU", gpu: "kind: KIND_GPU, gpus: [ 0 ]" } as const;

interface Input {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

const MODELS: Readonly<Record<string, { readonly file: string; readonly inputs: readonly Input[] }>> = {
  simple: {
    file: "model_repository/simple/1/model.onnx",
    inputs: [input("INPUT0", "INT32", [8, 16], (i) => i), input("INPUT1", "INT32", [8, 16], (i) => i % 7)],
  },
  text_encoder: {
    file: "nereid-tiny/onnx/text_encoder.onnx",
    inputs: [
      input("input_ids", "INT64", [ROWS, 12], (i) => 5 + ((i * 37) % 900)),
      input("attention_mask", "INT64", [ROWS, 12], (i) => (i % 12 < 9 ? 1 : 0)),
    ],
  },
  vision_encoder: {
    file: "nereid-tiny/onnx/vision_encoder.onnx",
    inputs: [input("pixel_values", "FP32", [ROWS, 3, 64, 64], (i) => Math.sin(i) / 2)],
  },
};

function input(name: string, datatype: string, shape: readonly number[], valueAt: (i: number) => number): Input {
  const count = shape.reduce((product, size) => product * size, 1);
  return { name, datatype, shape, data: Array.from({ length: count }, (_, i) => valueAt(i)) };
}

function writeRepository(): string {
  const root = join(flags.work, "repository");
  const put = newRepository(root);
  for (const [name, { file }] of Object.entries(MODELS)) {
    const config = readFileSync(join(flags.examples, "model_repository", name, "config.pbtxt"), "utf8");
    for (const [kind, place] of Object.entries(PLACES)) {
      const own = config.replace(`name: "${name}"`, `name: "${name}_${kind}"`).replace(/instance_group \[[^\]]*\]/, "");
      put(`${name}_${kind}/config.pbtxt`, `${own}\ninstance_group [ { count: 1, ${place} } ]\n`);
      mkdirSync(join(root, `${name}_${kind}/1`));
      copyFileSync(join(flags.examples, file), join(root, `${name}_${kind}/1/model.onnx`));
    }
  }
  return root;
}

type Outputs = ReadonlyMap<string, readonly number[]>;

async function infer(model: string, inputs: readonly Input[]): Promise<Outputs> {
  const url = `http://127.0.0.1:${PORT}/v2/models/${model}/infer`;
  const answer = (await (await fetch(url, { method: "POST", body: JSON.stringify({ inputs }) })).json()) as {
    readonly outputs?: readonly { readonly name: string; readonly data: readonly number[] }[];
    readonly error?: string;
  };
  if (answer.outputs === undefined) throw new Error(`${model}: ${answer.error}`);
  return new Map(answer.outputs.map(({ name, data }) => [name, data]));
}

async function medianMs(run: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const startMs = performance.now();
    await run();
    times.push(performance.now() - startMs);
  }
  return times.toSorted((a, b) => a - b)[ROUNDS >> 1] ?? Number.NaN;
}

function largestDifference(a: readonly number[], b: readonly number[] = []): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - (b[i] ?? Number.NaN))), 0);
}

const server = await startServer({
  program: flags.program,
  repository: writeRepository(),
  port: PORT,
  readyTimeoutMs: 60_000,
  flags: [`--backend-config=onnxruntime,library=${flags.library}`],
});
try {
  for (const [name, { inputs }] of Object.entries(MODELS)) {
    const [onCpu, onGpu] = [await infer(`${name}_cpu`, inputs), await infer(`${name}_gpu`, inputs)];
    for (const [output, values] of onCpu) {
      const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const difference = largestDifference(values, onGpu.get(output));
      console.log(`${name} ${output}: off by ${difference.toExponential(1)} of ${largest.toExponential(1)}`);
    }
    const ms = [
      await medianMs(() => infer(`${name}_cpu`, inputs)),
      await medianMs(() => infer(`${name}_gpu`, inputs)),
    ] as const;
    console.log(`${name}: ${ms[0].toFixed(2)} ms on the CPU, ${ms[1].toFixed(2)} ms on the GPU, over HTTP with JSON`);
  }
} catch (error) {
  console.log("FAILED:", error);
  console.log(server.lines.slice(-20).join("\n"));
  process.exitCode = 1;
} finally {
  await server.stop();
}
