/** Attention of a decoder's rows to all rows of an encoder. Source: Vaswani et al. 2017, section 3.2.3. */
import { type BiasedAttentionCase, biasedAttention } from "../biased-attention/biased-attention.ref.ts";

/** [numQueries, numHeads * headDim] */
export function crossAttention(given: Omit<BiasedAttentionCase, "bias" | "isCausal">): Float32Array {
  return biasedAttention({ ...given, bias: new Float32Array(0), isCausal: false });
}
