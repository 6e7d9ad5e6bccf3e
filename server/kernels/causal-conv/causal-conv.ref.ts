/**
 * Reference: causal depthwise convolution with a state of the inputs before the first token, in double precision. Source:
 * Mamba (Gu and Dao 2023), section 3.4.
 */
export interface CausalConvRef {
  readonly x: Float32Array; // [numTokens, channels]
  readonly kernels: Float32Array; // [channels, width]
  readonly bias?: Float32Array | undefined; // [channels]
  /** Inputs before the first token, oldest first. */
  readonly state: Float32Array; // [channels, width - 1]
  readonly hasSilu: boolean;
}

export interface CausalConvResult {
  readonly y: Float32Array; // [numTokens, channels]
  readonly state: Float32Array; // [channels, width - 1]
}

export function causalConvRef({ x, kernels, bias, state, hasSilu }: CausalConvRef): CausalConvResult {
  const channels = kernels.length - state.length;
  const width = kernels.length / channels;
  const numTokens = x.length / channels;
  const y = new Float32Array(x.length);
  const next = new Float32Array(state.length);
  for (let channel = 0; channel < channels; channel++) {
    const inputs = [...state.subarray(channel * (width - 1), (channel + 1) * (width - 1))];
    for (let token = 0; token < numTokens; token++) inputs.push(x[token * channels + channel] ?? 0);
    const kernel = kernels.subarray(channel * width, (channel + 1) * width);
    for (let token = 0; token < numTokens; token++) {
      const sum = kernel.reduce((total, value, i) => total + value * (inputs[token + i] ?? 0), bias?.[channel] ?? 0);
      y[token * channels + channel] = hasSilu ? sum / (1 + Math.exp(-sum)) : sum;
    }
    next.set(inputs.slice(numTokens), channel * (width - 1));
  }
  return { y, state: next };
}
