/** Small models of any family with random weights, over the vocabulary of the example model's tokenizer. Deterministic. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  safetensorsBytes,
  type TensorDraft,
} from "../../server/src/formats/tensors/safetensors-writer.test-support.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { describeWeights } from "../../server/src/models/weights/weight-plan.ts";

const TOKENIZER = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const SCALE = 0.08;

export const FAMILIES: Readonly<Record<"gpt2" | "llama" | "mistral", Readonly<Record<string, unknown>>>> = {
  gpt2: {
    architectures: ["GPT2LMHeadModel"],
    model_type: "gpt2",
    n_embd: 64,
    n_head: 4,
    n_layer: 2,
    n_positions: 1024,
    activation_function: "gelu_new",
    layer_norm_epsilon: 1e-5,
  },
  llama: {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: 128,
    intermediate_size: 256,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 2,
    max_position_embeddings: 2048,
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
  },
  mistral: {
    architectures: ["MistralForCausalLM"],
    model_type: "mistral",
    hidden_size: 64,
    head_dim: 24,
    intermediate_size: 96,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 2,
    max_position_embeddings: 2048,
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    rope_theta: 1e6,
    sliding_window: null,
  },
};

/** A folder as Hugging Face has it: config.json, model.safetensors, tokenizer. */
export function writeRandomModel(folder: string, family: keyof typeof FAMILIES): void {
  mkdirSync(folder, { recursive: true });
  for (const name of ["tokenizer.json", "tokenizer_config.json"])
    copyFileSync(join(TOKENIZER, name), join(folder, name));
  const example: { readonly vocab_size: number } = JSON.parse(readFileSync(join(TOKENIZER, "config.json"), "utf8"));
  const config = {
    ...FAMILIES[family],
    vocab_size: example.vocab_size,
    bos_token_id: 1,
    eos_token_id: 2,
    torch_dtype: "float32",
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "model.safetensors"), safetensorsBytes(randomDecoder(config)));
}

/** The weights of the decoder that a config.json describes. */
export function randomDecoder(config: unknown): Record<string, TensorDraft> {
  const at = { config: "config.json", generation: "generation_config.json" };
  const { config: decoder, weights } = parseDecoderConfig({ config, generation: undefined, at });
  const tensors: Record<string, TensorDraft> = {};
  const random = generator();
  describeWeights(decoder, weights, weights.prefixes[0] ?? "", ({ sources }) => {
    for (const { name, shape } of sources) {
      const isNorm = /norm|ln_/.test(name) && name.endsWith("weight");
      const length = shape.reduce((product, size) => product * size, 1);
      tensors[name] = {
        dtype: "F32",
        shape,
        data: Float32Array.from({ length }, () => (isNorm ? 1 : random() * SCALE)),
      };
    }
  });
  return tensors;
}

/** Numbers from -1 to 1, always the same ones. */
export function generator(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}
