/**
 * Reference: softmax over all experts, the largest `numChosen` of them, and their weights. Source: mixture of experts
 * (Shazeer et al. 2017; Fedus et al. 2021).
 */
export interface RouteExpertsRef {
  readonly logits: Float32Array; // [numTokens, numExperts]
  readonly numExperts: number;
  readonly numChosen: number;
  readonly isRenormalized: boolean;
}

export interface RouteRef {
  readonly ids: Int32Array; // [numTokens, numChosen], most probable first
  readonly weights: Float32Array; // [numTokens, numChosen]
}

export function routeExpertsRef({ logits, numExperts, numChosen, isRenormalized }: RouteExpertsRef): RouteRef {
  const numTokens = logits.length / numExperts;
  const ids = new Int32Array(numTokens * numChosen);
  const weights = new Float32Array(numTokens * numChosen);
  for (let token = 0; token < numTokens; token++) {
    const powers = Array.from(logits.subarray(token * numExperts, (token + 1) * numExperts), Math.exp);
    const order = [...powers.keys()].sort((a, b) => (powers[b] ?? 0) - (powers[a] ?? 0)).slice(0, numChosen);
    const counted = isRenormalized ? order.map((id) => powers[id] ?? 0) : powers;
    const total = counted.reduce((sum, value) => sum + value, 0);
    for (const [i, id] of order.entries()) {
      ids[token * numChosen + i] = id;
      weights[token * numChosen + i] = (powers[id] ?? 0) / total;
    }
  }
  return { ids, weights };
}
