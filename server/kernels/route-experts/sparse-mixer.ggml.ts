/**
 * Weights of the two best experts of each token: each is the softmax over the experts that come near it, the second without
 * the first. Source: SparseMixer (Liu et al. 2023) as Phi-3.5-MoE applies it, transformers, modeling_phimoe.py.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";

/** No logit of an expert comes near it. */
const OUT_OF_CHOICE = -1e9;
/** Makes every difference larger than one. */
const STEEP = 1e30;

/** [numTokens, 2] for `ids`, the two best of `logits`, [numTokens, numExperts]. */
export function recordSparseMixer(graph: CpuGraph, logits: CpuTensor, ids: Address, tolerance: number): Address {
  const { base } = graph.ggml;
  const [numTokens = 0, numExperts = 0] = logits.shape;
  const apart = (one: Address): Address => base.reshape3d(graph.claim(), one, 1, numExperts, numTokens);
  const best = base.getRows(graph.claim(), apart(logits.handle), ids);
  const top = base.reshape2d(graph.claim(), best, 2, numTokens);
  const value = (i: number): Address =>
    base.cont(graph.claim(), base.view2d(graph.claim(), top, 1, numTokens, 8, 4 * i));
  const weights = (scores: Address, i: number): Address => {
    const near = recordNear(graph, logits.handle, value(i), tolerance);
    const shares = base.softMax(graph.claim(), base.add(graph.claim(), scores, near));
    const picked = base.getRows(graph.claim(), apart(shares), ids);
    const both = base.reshape2d(graph.claim(), picked, 2, numTokens);
    return base.cont(graph.claim(), base.view2d(graph.claim(), both, 1, numTokens, 8, 4 * i));
  };
  const first = weights(logits.handle, 0);
  // All that is at least the best value: the best expert itself.
  const isBest = recordStep(graph, base.add(graph.claim(), logits.handle, base.scale(graph.claim(), value(0), -1)), 1);
  const rest = base.add(graph.claim(), logits.handle, base.scale(graph.claim(), isBest, OUT_OF_CHOICE));
  return base.concat(graph.claim(), first, weights(rest, 1), 0);
}

/** 0 for experts near the best value, else out of choice: how far they may be grows with their own size. */
function recordNear(graph: CpuGraph, logits: Address, best: Address, tolerance: number): Address {
  const { base } = graph.ggml;
  const negative = base.scale(graph.claim(), logits, -1);
  const size = base.add(graph.claim(), base.relu(graph.claim(), logits), base.relu(graph.claim(), negative));
  const beyond = base.relu(graph.claim(), base.add(graph.claim(), size, base.scale(graph.claim(), best, -1)));
  const reach = base.scale(graph.claim(), base.add(graph.claim(), beyond, best), -2 * tolerance);
  const distance = base.add(graph.claim(), base.add(graph.claim(), negative, best), reach);
  return base.scale(graph.claim(), recordStep(graph, distance, 0), OUT_OF_CHOICE);
}

/** 1 above zero, else 0; with `atZero` 1 also at zero. */
function recordStep(graph: CpuGraph, x: Address, atZero: 0 | 1): Address {
  const { base } = graph.ggml;
  const steep = base.scaleBias(graph.claim(), x, STEEP, atZero);
  return base.clamp(graph.claim(), steep, 0, 1);
}
