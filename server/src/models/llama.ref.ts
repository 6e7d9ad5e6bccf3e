/**
 * The forward pass of a Llama decoder with the reference kernels: one whole sequence, plain f32 arrays. The oracle of the
 * devices; it knows no batch and no cache of its own.
 */
import { addRef } from "../../kernels/add/add.ref.ts";
import { attentionRef } from "../../kernels/attention/attention.ref.ts";
import { gatherRowsRef } from "../../kernels/gather-rows/gather-rows.ref.ts";
import { linearRef } from "../../kernels/linear/linear.ref.ts";
import { rmsNormRef } from "../../kernels/rms-norm/rms-norm.ref.ts";
import { ropeRef } from "../../kernels/rope/rope.ref.ts";
import { siluMulRef } from "../../kernels/silu-mul/silu-mul.ref.ts";
import type { LlamaConfig } from "../formats/hf-config.ts";
import { ropeFrequencyFactors } from "./rope-factors.ts";

/** Tensors by their names in the files. */
export type LlamaTensors = ReadonlyMap<string, Float32Array>;

/** Logits of every token: [numTokens, vocab]. */
export function llamaRef(config: LlamaConfig, tensors: LlamaTensors, tokenIds: Int32Array): Float32Array {
  const { hiddenSize: width, numLayers, rmsNormEpsilon: epsilon } = config;
  const table = expectTensor(tensors, "model.embed_tokens.weight");
  let x = gatherRowsRef({ table, ids: tokenIds, width });
  for (let i = 0; i < numLayers; i++) {
    const at = `model.layers.${i}`;
    const attentionNorm = expectTensor(tensors, `${at}.input_layernorm.weight`);
    x = addRef(x, attend(config, tensors, `${at}.self_attn`, rmsNormRef({ x, weight: attentionNorm, epsilon })));
    const mlpNorm = expectTensor(tensors, `${at}.post_attention_layernorm.weight`);
    x = addRef(x, mlp(config, tensors, `${at}.mlp`, rmsNormRef({ x, weight: mlpNorm, epsilon })));
  }
  const normed = rmsNormRef({ x, weight: expectTensor(tensors, "model.norm.weight"), epsilon });
  const output = config.tieWordEmbeddings ? table : expectTensor(tensors, "lm_head.weight");
  return linearRef({ x: normed, weight: output, inputs: width });
}

function attend(config: LlamaConfig, tensors: LlamaTensors, at: string, x: Float32Array): Float32Array {
  const { hiddenSize, numHeads, numKvHeads, headDim, ropeTheta: theta } = config;
  const numTokens = x.length / hiddenSize;
  const positions = Int32Array.from({ length: numTokens }, (_, i) => i);
  const frequencyFactors = ropeFrequencyFactors(config);
  const turn = (projected: Float32Array, heads: number): Float32Array =>
    ropeRef({
      x: projected,
      positions,
      rowWidth: heads * headDim,
      numHeads: heads,
      headDim,
      theta,
      ...(frequencyFactors === undefined ? {} : { frequencyFactors }),
    });
  const attended = attentionRef({
    q: turn(project(tensors, `${at}.q_proj`, x, hiddenSize), numHeads),
    keyCache: turn(project(tensors, `${at}.k_proj`, x, hiddenSize), numKvHeads),
    valueCache: project(tensors, `${at}.v_proj`, x, hiddenSize),
    sequences: [{ queryStart: 0, queryLength: numTokens, contextLength: numTokens, blockTable: Int32Array.of(0) }],
    blockSize: numTokens,
    numHeads,
    numKvHeads,
    headDim,
  });
  return project(tensors, `${at}.o_proj`, attended, numHeads * headDim);
}

function mlp(config: LlamaConfig, tensors: LlamaTensors, at: string, x: Float32Array): Float32Array {
  const { hiddenSize, intermediateSize } = config;
  const gate = project(tensors, `${at}.gate_proj`, x, hiddenSize);
  const up = project(tensors, `${at}.up_proj`, x, hiddenSize);
  const gateUp = new Float32Array(2 * gate.length);
  for (let row = 0; row * intermediateSize < gate.length; row++) {
    const [from, to] = [row * intermediateSize, (row + 1) * intermediateSize];
    gateUp.set(gate.subarray(from, to), 2 * from);
    gateUp.set(up.subarray(from, to), from + to);
  }
  return project(tensors, `${at}.down_proj`, siluMulRef(gateUp, intermediateSize), intermediateSize);
}

function project(tensors: LlamaTensors, name: string, x: Float32Array, inputs: number): Float32Array {
  const bias = tensors.get(`${name}.bias`);
  const weight = expectTensor(tensors, `${name}.weight`);
  return linearRef({ x, weight, inputs, ...(bias === undefined ? {} : { bias }) });
}

function expectTensor(tensors: LlamaTensors, name: string): Float32Array {
  const tensor = tensors.get(name);
  if (tensor === undefined) throw new Error(`expected a tensor "${name}"`);
  return tensor;
}
