/** Reference: the weighted sum of each token's rows. Source: mixture of experts (Shazeer et al. 2017). */
export function mixExpertsRef(x: Float32Array, weights: Float32Array, numChosen: number): Float32Array {
  const width = x.length / weights.length;
  const out = new Float32Array((weights.length / numChosen) * width);
  weights.forEach((weight, row) => {
    const token = Math.floor(row / numChosen);
    for (let i = 0; i < width; i++) {
      out[token * width + i] = (out[token * width + i] ?? 0) + weight * (x[row * width + i] ?? 0);
    }
  });
  return out;
}
