/** All families of architectures. A new one is a file of this folder and its line here. */
import type { Architecture } from "../architecture.ts";
import { COHERES } from "./cohere.ts";
import { DEEPSEEKS } from "./deepseek.ts";
import { DOTS } from "./dots.ts";
import { BARTS } from "./encoder-decoders/bart.ts";
import { T5S } from "./encoder-decoders/t5.ts";
import { WHISPERS } from "./encoder-decoders/whisper.ts";
import { EXAONES } from "./exaone.ts";
import { GEMMA4S } from "./gemma4.ts";
import { GLMS } from "./glm.ts";
import { GPTS } from "./gpt.ts";
import { GPT_OSS } from "./gpt-oss.ts";
import { GRANITES } from "./granite.ts";
import { HUNYUAN } from "./hunyuan.ts";
import { LFM2 } from "./lfm2.ts";
import { LLAMA_LIKE } from "./llama-like.ts";
import { LLAMA4S } from "./llama4.ts";
import { MINIMAX_M2 } from "./minimax-m2.ts";
import { MINISTRALS } from "./ministral.ts";
import { NEMOTRONS } from "./nemotron.ts";
import { OLMOS } from "./olmo.ts";
import { PHIMOE } from "./phimoe.ts";
import { QWEN_NEXTS } from "./qwen-next.ts";
import { SMOLLM3 } from "./smollm3.ts";
import { STABLELM } from "./stablelm.ts";

export const FAMILIES: readonly Architecture[] = [
  ...BARTS,
  ...COHERES,
  ...DEEPSEEKS,
  ...DOTS,
  ...EXAONES,
  ...GEMMA4S,
  ...GLMS,
  ...GPTS,
  ...GPT_OSS,
  ...GRANITES,
  ...HUNYUAN,
  ...LFM2,
  ...LLAMA_LIKE,
  ...LLAMA4S,
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
