/**
 * INT4 weights with a scale and zero point per group of inputs, the common form of AWQ, GPTQ and compressed-tensors.
 * Source: AWQ, Lin et al. 2023, section 3.
 */

export interface StoredInt4Groups {
  /** Inputs that share a scale. */
  readonly groupSize: number;
  /** Whether zero points may differ from 8. */
  readonly hasZeros: boolean;
  /** Whether inputs have multipliers of their own. */
  readonly hasInputScales: boolean;
}

/** An INT4 matrix: each element is (code - zero) * scale, in groups of consecutive inputs. */
export interface StoredInt4Matrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly groupSize: number;
  /** [outputs, inputs / 2]: the low nibble of a byte is the earlier input. */
  readonly codes: Uint8Array;
  /** [outputs, inputs / groupSize] */
  readonly scales: Float32Array;
  /** [outputs, inputs / groupSize] of 0 to 15; absent when every zero point is 8. */
  readonly zeros?: Uint8Array | undefined;
  /** Multiplier of each input before the GEMM. [inputs] */
  readonly inputScales?: Float32Array | undefined;
}
