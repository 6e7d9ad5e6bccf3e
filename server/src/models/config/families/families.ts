/** All families of architectures. A new one is a file of this folder and its line here. */
import type { Architecture } from "../architecture.ts";
import { APERTUS } from "./apertus.ts";
import { COHERES } from "./cohere.ts";
import { AFMOES } from "./deepseek/afmoe.ts";
import { DEEPSEEKS } from "./deepseek/deepseek.ts";
import { DOTS } from "./deepseek/dots.ts";
import { ERNIE_MOES } from "./deepseek/ernie-moe.ts";
import { BARTS } from "./encoder-decoders/bart.ts";
import { T5S } from "./encoder-decoders/t5.ts";
import { WHISPERS } from "./encoder-decoders/whisper.ts";
import { EXAONES } from "./exaone.ts";
import { GEMMA3NS } from "./gemma/gemma3n.ts";
import { GEMMA4S } from "./gemma/gemma4.ts";
import { GLMS } from "./glm.ts";
import { GPTS } from "./gpt.ts";
import { GPT_OSS } from "./gpt-oss.ts";
import { GPT2_LIKE } from "./gpt2-like.ts";
import { HUNYUAN } from "./hunyuan.ts";
import { LLAMA_LIKE } from "./llama-like.ts";
import { LLAMA4S } from "./llama4.ts";
import { MINICPMS } from "./minicpm.ts";
import { MINIMAX_M2 } from "./minimax-m2.ts";
import { MINISTRALS } from "./ministral.ts";
import { NEMOTRONS } from "./nemotron.ts";
import { OLMOS } from "./olmo.ts";
import { PHIMOE } from "./phimoe.ts";
import { GRANITES } from "./recurrent/granite.ts";
import { LFM2 } from "./recurrent/lfm2.ts";
import { BAMBAS } from "./recurrent/mamba2.ts";
import { QWEN_NEXTS } from "./recurrent/qwen-next.ts";
import { SMOLLM3 } from "./smollm3.ts";
import { STABLELM } from "./stablelm.ts";

export const FAMILIES: readonly Architecture[] = [
  ...AFMOES,
  ...APERTUS,
  ...BAMBAS,
  ...BARTS,
  ...COHERES,
  ...DEEPSEEKS,
  ...DOTS,
  ...ERNIE_MOES,
  ...EXAONES,
  ...GEMMA3NS,
  ...GEMMA4S,
  ...GLMS,
  ...GPTS,
  ...GPT2_LIKE,
  ...GPT_OSS,
  ...GRANITES,
  ...HUNYUAN,
  ...LFM2,
  ...LLAMA_LIKE,
  ...LLAMA4S,
  ...MINICPMS,
  ...MINIMAX_M2,
  ...MINISTRALS,
  ...NEMOTRONS,
  ...OLMOS,
  ...PHIMOE,
  ...QWEN_NEXTS,
  ...SMOLLM3,
  ...STABLELM,
  ...T5S,
  ...WHISPERS,
];
