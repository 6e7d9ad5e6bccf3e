/** Entry point of the package: what a server and a client of the KServe V2 protocol share. */
export { type BytesFault, checkBytesElements, packBytesElements, splitBytesElements } from "./bytes.ts";
export { type Datatype, elementSize, type FixedDatatype, isDatatype } from "./datatype.ts";
export { fileDescriptors } from "./gen/descriptors.ts";
export { schema } from "./gen/schema.ts";
export { JsonLimitError, JsonSyntaxError } from "./json/error.ts";
export {
  InferRequestReader,
  type JsonInferInput,
  type JsonInferOutput,
  type JsonInferRequest,
} from "./json/infer-request.ts";
export { readV2Response, type V2InferResponse, type V2Output, V2ResponseError } from "./json/infer-response.ts";
export type { JsonInferTensor, JsonParameters, JsonShapeError } from "./json/infer-tensor.ts";
export { type JsonLimits, JsonReader } from "./json/reader.ts";
export { hasJsonForm, type JsonDatatype, type JsonTensor, JsonTensorReader } from "./json/tensor-reader.ts";
export { writeSmallTensorData, writeTensorData } from "./json/tensor-writer.ts";
export {
  JSON_ARRAY,
  JSON_OBJECT,
  type JsonDouble,
  type JsonObject,
  type JsonScalar,
  type JsonShallow,
  type JsonValue,
  readDocument,
  readScalar,
  readShallow,
} from "./json/value.ts";
export { JsonWriter } from "./json/writer.ts";
export { SCRATCH_BYTES, useFloatMemory } from "./numbers/float-kernel.ts";
export { FIRST_FREE_BYTE, type FloatMemory, floatMemory } from "./numbers/float-memory.ts";
export { type Allocate, GatherWriter } from "./proto/gather-writer.ts";
export { type InferParameter, type InferParameters, NO_INFER_PARAMETERS } from "./proto/infer-parameter.ts";
export {
  decodeInferRequest,
  type InferInputMessage,
  type InferRequestMessage,
  type OutgoingInferRequest,
  type OutgoingInput,
  type RequestedOutputMessage,
  writeInferRequest,
} from "./proto/infer-request.ts";
export {
  decodeInferResponse,
  decodeStreamResponse,
  type InferOutputMessage,
  type InferResponseMessage,
  RAW_CONTENTS_TAG,
  STREAMED_RESPONSE_TAG,
  type StreamResponseMessage,
  writeInferResponse,
  writeInferResponseHead,
  writeStreamResponse,
} from "./proto/infer-response.ts";
export { NameCache } from "./proto/name-cache.ts";
export { ProtoError, ProtoReader } from "./proto/proto-reader.ts";
export type {
  FileDescriptor,
  SchemaEnum,
  SchemaField,
  SchemaMethod,
  SchemaNamespace,
  SchemaService,
  SchemaType,
} from "./proto/schema-types.ts";
export { type ContentsKind, contentsAs, type TypedContents } from "./proto/tensor-contents.ts";
export { decodeUtf8, encodeUtf8 } from "./utf8.ts";
