/** Each recorded model with one field of its config.json changed. Pure. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { honouredFields, type parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";

export interface FieldChange {
  readonly model: string;
  readonly className: string;
  /** The folder with config.json, weights and the recorded logits. */
  readonly folder: string;
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
  /** The whole file with the other value. */
  readonly config: object;
}

type Json = Readonly<Record<string, unknown>>;

/** Sections in which multimodal files keep what describes the decoder. */
const SECTIONS = ["text_config", "llm_config", "language_config"];

export function recordedModels(): readonly {
  readonly model: string;
  readonly folder: string;
  readonly config: Json;
}[] {
  return ["models/", "architectures/"].flatMap((group) => {
    const at = new URL(group, import.meta.url);
    return readdirSync(at)
      .sort()
      .map((model) => {
        const folder = fileURLToPath(new URL(`${model}/`, at));
        return { model, folder, config: JSON.parse(readFileSync(`${folder}config.json`, "utf8")) as Json };
      });
  });
}

/** Every honoured field that the file of a model has, with another value of the same kind. */
export function fieldChanges(): readonly FieldChange[] {
  return recordedModels().flatMap(({ model, folder, config }) => {
    const [className = ""] = config.architectures as readonly string[];
    const section = SECTIONS.find((name) => typeof config[name] === "object");
    const fields = honouredFields(filesOf(config)).filter((field) => field !== "architectures");
    return fields.flatMap((field) => {
      const isWithin = section !== undefined && field in (config[section] as Json);
      const place = isWithin ? (config[section] as Json) : config;
      if (!(field in place)) return [];
      const from = place[field];
      const to = otherValue(from);
      if (to === undefined) return [];
      const changed = { ...place, [field]: to };
      const whole = isWithin && section !== undefined ? { ...config, [section]: changed } : changed;
      return [{ model, className, folder, field, from, to, config: whole }];
    });
  });
}

export function filesOf(config: Json): Parameters<typeof parseDecoderConfig>[0] {
  return { config, generation: undefined, at: { config: "config.json", generation: "generation_config.json" } };
}

/** Another value of the same kind; undefined where none is known. */
function otherValue(value: unknown): unknown {
  if (typeof value === "boolean") return !value;
  if (typeof value === "number") return Number.isInteger(value) ? (value > 1 ? 2 * value : value + 1) : 1.5 * value;
  if (typeof value === "string") return otherText(value);
  if (Array.isArray(value)) return otherList(value);
  if (typeof value === "object" && value !== null) return otherObject(value as Json);
  return undefined;
}

/** A type of numbers, of layers or of activations. */
function otherText(value: string): string {
  if (value === "float32") return "bfloat16";
  if (value === "bfloat16" || value === "float16") return "float32";
  if (value.endsWith("_attention")) return value === "full_attention" ? "sliding_attention" : "full_attention";
  return value === "relu" ? "silu" : "relu";
}

/** Its last element comes first, or is another one where all are the same. */
function otherList(value: readonly unknown[]): readonly unknown[] | undefined {
  const last = value.at(-1);
  if (value.some((element) => element !== last)) return [last, ...value.slice(0, -1)];
  const other = otherValue(last);
  return other === undefined ? undefined : [...value.slice(0, -1), other];
}

/** Its first member of a kind with another value. */
function otherObject(value: Json): Json | undefined {
  for (const key of ["rope_theta", ...Object.keys(value)]) {
    const to = key === "rope_type" ? undefined : otherValue(value[key]);
    if (to !== undefined) return { ...value, [key]: to };
  }
  return undefined;
}
