/**
 * The way from the rows of an encoder to its vector, as the folder says it: a classification head by the class of
 * config.json, or the modules of sentence-transformers. Sources: transformers, modeling files; sentence-transformers,
 * modules.json.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isObject } from "../../core/json-object.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { HfFields } from "../../formats/hf/config-fields.ts";
import type { ModelFiles } from "../../formats/hf/model-files.ts";
import { openSafetensors } from "../../formats/tensors/safetensors.ts";
import { readFloats } from "./read-floats.ts";
import type { VectorActivation, VectorLayer } from "./vector-layers.ts";

export const ENCODER_POOLINGS = ["mean", "cls", "last", "max"] as const;
export type EncoderPooling = (typeof ENCODER_POOLINGS)[number];

export interface EncoderHead {
  readonly pooling: EncoderPooling;
  /** Applied to the pooled vector. */
  readonly layers: readonly VectorLayer[];
  /** The vector is of scores or classes: it has no direction. */
  readonly isClassifier: boolean;
}

const MAX_MODULE_BYTES = 1 << 16;
const MAX_MODULES = 16;
/** A folder beside modules.json, or none. */
const MODULE_PATH = /^(?!\.)[\w.-]*$/;

/** `device` converts types. @throws Error naming the file, field or tensor that does not fit */
export async function readHead(
  device: Pick<CpuDevice, "ggml">,
  path: string,
  { files, tensors }: ModelFiles,
  hiddenSize: number,
): Promise<EncoderHead> {
  const fields = new HfFields(files.config, files.at.config);
  const className = String((fields.get("architectures") as readonly unknown[] | undefined)?.[0] ?? "");
  if (!className.endsWith("ForSequenceClassification")) return readModules(device, path, hiddenSize);
  const labels = fields.get("id2label");
  const count = isObject(labels)
    ? Object.keys(labels).length
    : fields.int("num_labels", { min: 1, max: 1 << 16, default: 2 });
  const layer = async (name: string, outputs: number, activation: VectorActivation, hasBias = true) => ({
    weight: await readFloats(device, tensors, `${name}.weight`, [outputs, hiddenSize]),
    bias: hasBias ? await readFloats(device, tensors, `${name}.bias`, [outputs]) : undefined,
    activation,
  });
  if (className.startsWith("ModernBert")) {
    const hasBias = fields.boolean("classifier_bias", false);
    const activation = fields.get("classifier_activation") ?? "gelu";
    if (activation !== "gelu") throw fields.refusal("classifier_activation", '"gelu"', activation);
    const dense = await layer("head.dense", hiddenSize, "gelu", hasBias);
    const norm = {
      weight: await readFloats(device, tensors, "head.norm.weight", [hiddenSize]),
      bias: fields.boolean("norm_bias", false)
        ? await readFloats(device, tensors, "head.norm.bias", [hiddenSize])
        : undefined,
      epsilon: fields.positive("norm_eps", 1e-5),
    };
    const pooling = fields.get("classifier_pooling") === "mean" ? "mean" : "cls";
    return { pooling, layers: [{ ...dense, norm }, await layer("classifier", count, "none")], isClassifier: true };
  }
  const { dense, activation, out } = poolerOf(className, fields);
  return {
    pooling: "cls",
    layers: [await layer(dense, hiddenSize, activation), await layer(out, count, "none")],
    isClassifier: true,
  };
}

/** The two modules behind the first row. @throws Error naming the field of an activation that is another */
function poolerOf(
  className: string,
  fields: HfFields,
): { readonly dense: string; readonly activation: VectorActivation; readonly out: string } {
  if (className.startsWith("Bert")) return { dense: "bert.pooler.dense", activation: "tanh", out: "classifier" };
  if (!className.startsWith("DebertaV2"))
    return { dense: "classifier.dense", activation: "tanh", out: "classifier.out_proj" };
  const activation = fields.get("pooler_hidden_act") ?? "gelu";
  if (activation !== "gelu") throw fields.refusal("pooler_hidden_act", '"gelu"', activation);
  return { dense: "pooler.dense", activation, out: "classifier" };
}

/** Without modules.json, the mean of the rows. */
async function readModules(device: Pick<CpuDevice, "ggml">, path: string, hiddenSize: number): Promise<EncoderHead> {
  const at = join(path, "modules.json");
  const modules = await readJson(at);
  if (modules === undefined) return { pooling: "mean", layers: [], isClassifier: false };
  if (!Array.isArray(modules) || modules.length > MAX_MODULES) throw new Error(`${at}: expected a list of modules`);
  let pooling: EncoderPooling = "mean";
  const layers: VectorLayer[] = [];
  let size = hiddenSize;
  for (const module of modules as readonly unknown[]) {
    const fields = new HfFields(module, at);
    const type = String(fields.get("type") ?? "")
      .split(".")
      .at(-1);
    const own = String(fields.get("path") ?? "");
    if (!MODULE_PATH.test(own)) throw fields.refusal("path", "a folder inside the model's", own);
    const folder = join(path, own);
    if (type === "Pooling") pooling = await readPooling(folder);
    else if (type === "Dense") {
      const dense = await readDense(device, folder, size);
      size = dense.weight.length / size;
      layers.push(dense);
    } else if (type !== "Transformer" && type !== "Normalize") {
      throw fields.refusal("type", "Transformer, Pooling, Dense or Normalize", fields.get("type"));
    }
  }
  return { pooling, layers, isClassifier: false };
}

const POOLING_FIELDS: ReadonlyMap<string, EncoderPooling> = new Map([
  ["pooling_mode_cls_token", "cls"],
  ["pooling_mode_mean_tokens", "mean"],
  ["pooling_mode_max_tokens", "max"],
  ["pooling_mode_lasttoken", "last"],
]);

/** Older files have a switch for each kind, newer ones its name. */
async function readPooling(folder: string): Promise<EncoderPooling> {
  const at = join(folder, "config.json");
  const config = await readJson(at);
  const fields = new HfFields(config, at);
  const named = fields.get("pooling_mode");
  const names: ReadonlyMap<unknown, EncoderPooling> = new Map([
    ...ENCODER_POOLINGS.map((name) => [name, name] as const),
    ["lasttoken", "last"],
  ]);
  const byName = names.get(named);
  if (byName !== undefined) return byName;
  const switched = Object.entries(isObject(config) ? config : {}).filter(
    ([name, value]) => name.startsWith("pooling_mode_") && value === true,
  );
  const [first] = switched;
  const pooling = first && POOLING_FIELDS.get(first[0]);
  if (pooling !== undefined && switched.length === 1) return pooling;
  throw new Error(`${at}: expected one of ${[...POOLING_FIELDS.keys()].join(", ")}, got ${JSON.stringify(switched)}`);
}

const ACTIVATIONS: ReadonlyMap<unknown, VectorActivation> = new Map([
  ["torch.nn.modules.linear.Identity", "none"],
  ["torch.nn.modules.activation.Tanh", "tanh"],
  ["torch.nn.modules.activation.ReLU", "relu"],
  ["torch.nn.modules.activation.GELU", "gelu"],
]);

async function readDense(device: Pick<CpuDevice, "ggml">, folder: string, inputs: number): Promise<VectorLayer> {
  const at = join(folder, "config.json");
  const fields = new HfFields(await readJson(at), at);
  const outputs = fields.int("out_features", { min: 1, max: 1 << 20 });
  const activation = ACTIVATIONS.get(fields.get("activation_function") ?? "torch.nn.modules.activation.Tanh");
  if (activation === undefined)
    throw fields.refusal("activation_function", [...ACTIVATIONS.keys()].join(", "), fields.get("activation_function"));
  const tensors = await openSafetensors(folder);
  try {
    return {
      weight: await readFloats(device, tensors, "linear.weight", [outputs, inputs]),
      bias: fields.boolean("bias", true) ? await readFloats(device, tensors, "linear.bias", [outputs]) : undefined,
      activation,
    };
  } finally {
    await tensors.close();
  }
}

/** Undefined when there is no such file. */
async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  if (text.length > MAX_MODULE_BYTES) throw new Error(`${path}: expected at most ${MAX_MODULE_BYTES} characters`);
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new Error(`${path}: expected JSON`, { cause });
  }
}
