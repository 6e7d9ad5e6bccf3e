/**
 * Whisper: an encoder of sound behind two convolutions, and a decoder of text. Sources: Radford et al. 2022; transformers,
 * modeling_whisper.py.
 */
import type { WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { preNormNames, SIDED, sideAliases } from "./bart.ts";

const DECODER_NAMES: WeightNames = preNormNames("decoder", {
  embedding: "decoder.embed_tokens",
  positions: "decoder.embed_positions",
  output: "proj_out",
});

const ENCODER_NAMES: WeightNames = preNormNames("encoder", {
  embedding: "decoder.embed_tokens",
  positions: "encoder.embed_positions",
  audioStem: ["encoder.conv1", "encoder.conv2"],
});

const NO_EFFECT = [
  "apply_spec_augment",
  "begin_suppress_tokens",
  "classifier_*",
  "forced_*",
  "mask_*",
  "max_length",
  "median_filter_width",
  "num_hidden_layers",
  "suppress_tokens",
  "use_weighted_layer_sum",
];

const ROW: Architecture = {
  ...SIDED,
  className: "WhisperForConditionalGeneration",
  biases: { qkv: true, oProj: true, mlp: true, output: false },
  weights: DECODER_NAMES,
};

const ENCODER: Architecture = {
  ...ROW,
  isCausal: false,
  aliases: { ...sideAliases("encoder"), max_position_embeddings: "max_source_positions" },
  noEffect: [...NO_EFFECT, "decoder_*", "max_target_positions"],
  weights: ENCODER_NAMES,
  // Frames are no tokens: their rows are not scaled.
  variant: (fields) => ({ audioStem: { numMels: fields.int("num_mel_bins", { min: 1, max: 1024 }) } }),
};

export const WHISPERS: readonly Architecture[] = [
  {
    ...ROW,
    aliases: { ...sideAliases("decoder"), max_position_embeddings: "max_target_positions" },
    noEffect: [...NO_EFFECT, "encoder_*", "max_source_positions", "num_mel_bins"],
    encoder: ENCODER,
  },
];
