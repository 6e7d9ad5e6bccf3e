/** One GGUF architecture as data: its differences from Llama. Source: llama.cpp, gguf-py/gguf/constants.py. */
import type { GgufScalar } from "./header.ts";

/** A metadata key with the prefix of the architecture. */
export type OwnKey = (key: string) => GgufScalar | undefined;
/** Whether the file has a tensor of this name in its first layer. */
export type HasTensor = (name: string) => boolean;

export interface GgufArchitecture {
  readonly dense: string;
  /** The class with experts; absent: files have none. */
  readonly experts?: string;
  /** The rows of query and key heads were reordered for rotary pairs of neighbours. */
  readonly hasInterleavedRows?: boolean;
  /** Weights of norms hold what config.json's class adds to them. */
  readonly hasWholeNorms?: boolean;
  /** A part of each head may rotate. */
  readonly hasPartialRotary?: boolean;
  /** Modules of a layer, where they are not Llama's. */
  readonly modules?: Readonly<Record<string, string>>;
  /** Tensors of a layer whose names do not end alike. */
  readonly layerTensors?: Readonly<Record<string, string>>;
  /** Start of the names of a layer, "#" standing for its number; absent: Llama's. */
  readonly layer?: string;
  /** Tensors outside of layers, where they are not Llama's. */
  readonly whole?: Readonly<Record<string, string>>;
  /** Fields of the scaling of rotary positions, if there is one, that files leave out. */
  readonly scaling?: Readonly<Record<string, unknown>>;
  /** Tensors of a layer that nothing here reads, and that change what is computed. */
  readonly unread?: readonly string[];
  /** Keys whose other values mean another model. */
  readonly requires?: Readonly<Record<string, GgufScalar>>;
  /** Matrices of experts, "#" standing for the expert; absent: Mixtral's. */
  readonly expertModules?: Readonly<Record<string, string>>;
  /** Fields of config.json. */
  readonly fields?: (own: OwnKey, has: HasTensor) => Readonly<Record<string, unknown>>;
}
