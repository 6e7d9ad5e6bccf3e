/**
 * Types of models, by which the compiler checks names, datatypes and shapes of tensors. `nereid types` writes them.
 * Without them every name, datatype and shape is allowed. Source: Open Inference Protocol, "Model Metadata".
 */
import type { Datatype } from "@nereid/wire";
import type { OutputOf, OutputTensor } from "./output-tensor.ts";
import type { InputTensor, TensorValue } from "./tensor.ts";

export interface TensorType {
  readonly datatype: Datatype;
  /** With the batch dimension; `number` stands for any size. */
  readonly shape: readonly number[];
}

export type TensorTypes = Readonly<Record<string, TensorType>>;

export interface ModelTypes {
  readonly inputs: TensorTypes;
  readonly optionalInputs: TensorTypes;
  readonly outputs: TensorTypes;
}

/** Models by name. */
export type ServedModels = Readonly<Record<string, ModelTypes>>;

type ValueFor<T extends TensorType> = TensorValue<T["datatype"], T["shape"]>;

/** Inputs as an object: each required one, and any optional ones. */
export type InputValues<M extends ModelTypes> = {
  readonly [N in keyof M["inputs"]]: ValueFor<M["inputs"][N]>;
} & { readonly [N in keyof M["optionalInputs"]]?: ValueFor<M["optionalInputs"][N]> };

type NamedIn<T extends TensorTypes> = {
  [N in keyof T & string]: InputTensor<N, T[N]["datatype"], T[N]["shape"]>;
}[keyof T & string];

/** An input in a list. Lists are not checked for being complete. */
export type NamedInput<M extends ModelTypes> = NamedIn<M["inputs"]> | NamedIn<M["optionalInputs"]>;

export type OutputName<M extends ModelTypes> = keyof M["outputs"] & string;

/** Every datatype when nothing is known of the model. */
export type OutputNamed<M extends ModelTypes, N extends OutputName<M>> =
  string extends OutputName<M> ? OutputTensor : OutputOf<M["outputs"][N]["datatype"]>;
