/**
 * Entry point for Node, Deno and Bun: the client of browsers over connections of its own, gRPC, and shared memory.
 * Source: KServe V2.
 */
export { type GrpcClientOptions, NereidGrpcClient } from "./grpc/grpc-client.ts";
export type { GrpcModelHandle } from "./grpc/grpc-model-handle.ts";
export type { InferStream } from "./grpc/infer-stream.ts";
export * from "./index.ts";
export type { PoolOptions, TlsOptions } from "./node/http-pool.ts";
export { NereidClient, type NodeClientOptions } from "./node/node-client.ts";
export { SystemMemory, type SystemMemoryOptions } from "./node/system-memory.ts";
