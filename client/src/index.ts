/** Entry point of the package: a client of the KServe V2 protocol for Node and browsers. */
export type { Datatype } from "@nereid/wire";
export { ClientError, type ClientErrorKind } from "./client-error.ts";
export type { CallOptions } from "./deadline.ts";
export type { InferOptions, RequestedOutput } from "./infer-request.ts";
export type { InferResult, OutputOf, OutputTensor, ParameterValue } from "./infer-result.ts";
export type { JsonData, JsonRecord } from "./json-document.ts";
export type { ModelMetadata, RepositoryEntry, ServerMetadata, TensorMetadata } from "./metadata.ts";
export type { ModelHandle } from "./model-handle.ts";
export { NereidClient, type NereidClientOptions } from "./nereid-client.ts";
export type { IndexOptions, LoadOptions, RepositoryClient, UnloadOptions } from "./repository-client.ts";
export { type InputElements, type InputTensor, type OutputElements, tensor } from "./tensor.ts";
