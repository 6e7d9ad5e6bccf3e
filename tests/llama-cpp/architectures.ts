/**
 * Metadata of tiny models of many architectures, for which libllama makes the tensors. Sources: ggml/docs/gguf.md for the
 * keys; the loaders of llama.cpp 0.5.0 for those that each architecture asks for.
 */
import { ARRAY, F32, type GgufField, STRING, U32 } from "../../server/src/formats/gguf/gguf-writer.test-support.ts";

const BOOL = 7;
const I32 = 5;

/** Sizes of a model, in the units of the keys. */
export interface TinySizes {
  readonly embedding: number;
  readonly heads: number;
  readonly headsKv: number;
  readonly feedForward: number;
  readonly layers: number;
}

export const TINY: TinySizes = { embedding: 32, heads: 2, headsKv: 1, feedForward: 48, layers: 2 };

export interface TinyModel {
  readonly architecture: string;
  readonly sizes?: Partial<TinySizes>;
  /** Keys behind the architecture's prefix, beside those of all. */
  readonly keys?: readonly GgufField[];
  readonly tokenizer?: "spm" | "wordpiece";
  /** Tensors that the architecture may have. */
  readonly optional?: readonly string[];
}

/** Printable ASCII, one token a character; the space is SentencePiece's mark. */
const LETTERS: readonly string[] = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i));
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;

export const SPM_TOKENS: readonly string[] = ["<unk>", "<s>", "</s>", "\u2581", ...LETTERS];
const WORDPIECES: readonly string[] = [
  ...["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
  ...LETTERS.map((letter) => `\u2581${letter}`),
  ...LETTERS,
];

function spmFields(): readonly GgufField[] {
  const types = SPM_TOKENS.map((_, id) => (id === 0 ? UNKNOWN : id < 3 ? CONTROL : NORMAL));
  return [
    ["tokenizer.ggml.model", STRING, "llama"],
    ["tokenizer.ggml.tokens", ARRAY, [STRING, SPM_TOKENS]],
    ["tokenizer.ggml.scores", ARRAY, [F32, SPM_TOKENS.map((_, id) => -id)]],
    ["tokenizer.ggml.token_type", ARRAY, [I32, types]],
    ["tokenizer.ggml.bos_token_id", U32, 1],
    ["tokenizer.ggml.eos_token_id", U32, 2],
    ["tokenizer.ggml.unknown_token_id", U32, 0],
    ["tokenizer.chat_template", STRING, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"],
  ];
}

function wordPieceFields(): readonly GgufField[] {
  return [
    ["tokenizer.ggml.model", STRING, "bert"],
    ["tokenizer.ggml.tokens", ARRAY, [STRING, WORDPIECES]],
    ["tokenizer.ggml.scores", ARRAY, [F32, WORDPIECES.map(() => 0)]],
    ["tokenizer.ggml.token_type", ARRAY, [I32, WORDPIECES.map((_, id) => (id < 5 ? CONTROL : NORMAL))]],
    ["tokenizer.ggml.token_type_count", U32, 2],
    ["tokenizer.ggml.padding_token_id", U32, 0],
    ["tokenizer.ggml.unknown_token_id", U32, 1],
    ["tokenizer.ggml.bos_token_id", U32, 2],
    ["tokenizer.ggml.cls_token_id", U32, 2],
    ["tokenizer.ggml.seperator_token_id", U32, 3],
    ["tokenizer.ggml.mask_token_id", U32, 4],
  ];
}

/** Metadata without tensors. A key given twice counts as it came last. */
export function fieldsOf({ architecture, sizes, keys = [], tokenizer = "spm" }: TinyModel): readonly GgufField[] {
  const { embedding, heads, headsKv, feedForward, layers } = { ...TINY, ...sizes };
  const own = (key: string): string => `${architecture}.${key}`;
  const fields: readonly GgufField[] = [
    ["general.architecture", STRING, architecture],
    ["general.name", STRING, `tiny ${architecture}`],
    [own("vocab_size"), U32, tokenizer === "spm" ? SPM_TOKENS.length : WORDPIECES.length],
    [own("context_length"), U32, 256],
    [own("embedding_length"), U32, embedding],
    [own("block_count"), U32, layers],
    [own("feed_forward_length"), U32, feedForward],
    [own("attention.head_count"), U32, heads],
    [own("attention.head_count_kv"), U32, headsKv],
    [own("attention.layer_norm_rms_epsilon"), F32, 1e-5],
    [own("attention.layer_norm_epsilon"), F32, 1e-5],
    ...keys.map(([key, type, value]): GgufField => [own(key), type, value]),
    ...(tokenizer === "spm" ? spmFields() : wordPieceFields()),
  ];
  return [...new Map(fields.map((field) => [field[0], field])).values()];
}

/** The models that are committed: one of each kind of memory and of block. */
export const RECORDED: Readonly<Record<string, TinyModel>> = {
  /** Both engines know it. */
  llama: { architecture: "llama", keys: [["rope.dimension_count", U32, 16]] },
  /** Layer norms and biases. */
  starcoder2: { architecture: "starcoder2" },
  /** Windows in every layer but one. */
  cohere2: {
    architecture: "cohere2",
    keys: [
      ["attention.sliding_window", U32, 8],
      ["logit_scale", F32, 1],
      ["rope.dimension_count", U32, 16],
    ],
  },
  /** Latent attention and experts. */
  deepseek2: {
    architecture: "deepseek2",
    sizes: { heads: 2, headsKv: 1 },
    keys: [
      ["leading_dense_block_count", U32, 1],
      ["attention.kv_lora_rank", U32, 16],
      ["attention.q_lora_rank", U32, 16],
      ["attention.key_length", U32, 24],
      ["attention.value_length", U32, 16],
      ["attention.key_length_mla", U32, 16],
      ["attention.value_length_mla", U32, 16],
      ["rope.dimension_count", U32, 8],
      ["expert_count", U32, 4],
      ["expert_used_count", U32, 2],
      ["expert_shared_count", U32, 1],
      ["expert_feed_forward_length", U32, 16],
      ["expert_gating_func", U32, 2],
      ["expert_weights_scale", F32, 1],
    ],
  },
  /** A recurrent state and no keys. */
  mamba: {
    architecture: "mamba",
    keys: [
      ["ssm.conv_kernel", U32, 4],
      ["ssm.inner_size", U32, 64],
      ["ssm.state_size", U32, 8],
      ["ssm.time_step_rank", U32, 4],
    ],
  },
  /** Short convolutions and attention by turns. */
  lfm2: {
    architecture: "lfm2",
    keys: [
      ["attention.head_count_kv", ARRAY, [U32, [0, 1]]],
      ["shortconv.l_cache", U32, 3],
      ["rope.dimension_count", U32, 16],
    ],
  },
  /** An encoder with a head for scores of pairs. */
  bert: {
    architecture: "bert",
    optional: ["cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"],
    tokenizer: "wordpiece",
    sizes: { headsKv: 2 },
    keys: [
      ["attention.causal", BOOL, Uint8Array.of(0)],
      ["pooling_type", U32, 1],
    ],
  },
};
