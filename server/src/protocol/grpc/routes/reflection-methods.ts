/** grpc.reflection.v1 and v1alpha: services and the descriptors of their files (gRPC server reflection protocol). */
import { type FileDescriptor, fileDescriptors, type SchemaNamespace, type SchemaService, schema } from "@nereid/wire";
import type { MessagePair, MessageTypes } from "../messages.ts";
import { GRPC_STATUS } from "../status.ts";
import type { StreamCall, StreamHandler } from "./method.ts";
import type { MethodEntry } from "./unary.ts";

interface ReflectionRequest {
  readonly host: string;
  readonly message_request?: string;
  readonly file_by_filename?: string;
  readonly file_containing_symbol?: string;
}

export function reflectionEntries(types: MessageTypes): readonly MethodEntry[] {
  let files: FileIndex | undefined;
  return ["v1", "v1alpha"].map((version) => {
    const scope = `grpc.reflection.${version}`;
    const pair = types.pair<ReflectionRequest>(`${scope}.ServerReflectionRequest`, `${scope}.ServerReflectionResponse`);
    const open = (call: StreamCall): StreamHandler => {
      files ??= new FileIndex();
      return new Reflection(files, pair, call);
    };
    const path = `/${scope}.ServerReflection/ServerReflectionInfo`;
    return [path, { kind: "stream", group: undefined, isInference: false, open }];
  });
}

class Reflection implements StreamHandler {
  readonly #files: FileIndex;
  readonly #pair: MessagePair<ReflectionRequest>;
  readonly #call: StreamCall;

  constructor(files: FileIndex, pair: MessagePair<ReflectionRequest>, call: StreamCall) {
    this.#files = files;
    this.#pair = pair;
    this.#call = call;
  }

  message(bytes: Uint8Array): undefined {
    const request = this.#pair.decode(bytes);
    const answer = this.#files.answer(request);
    void this.#call.send(this.#pair.encode({ valid_host: request.host, original_request: request, ...answer }));
  }

  halfClose(): void {
    this.#call.finish();
  }

  drain(): void {
    this.#call.finish();
  }
}

/** Looks descriptors up by file name and by symbol. */
class FileIndex {
  readonly #files: ReadonlyMap<string, FileDescriptor> = new Map(Object.entries(fileDescriptors));
  readonly #fileOfSymbol: ReadonlyMap<string, string> = new Map(
    Object.entries(fileDescriptors).flatMap(([name, file]) => file.symbols.map((symbol) => [symbol, name] as const)),
  );

  answer(request: ReflectionRequest): object {
    switch (request.message_request) {
      case "list_services":
        return { list_services_response: { service: serviceNames(schema, "").map((name) => ({ name })) } };
      case "file_by_filename":
        return this.#fileAnswer(request.file_by_filename, `File not found: ${request.file_by_filename}`);
      case "file_containing_symbol": {
        const symbol = request.file_containing_symbol ?? "";
        return this.#fileAnswer(this.#fileOfSymbol.get(symbol), `Symbol not found: ${symbol}`);
      }
      case "file_containing_extension":
      case "all_extension_numbers_of_type":
        return failure(GRPC_STATUS.notFound, "Extension not found: the services have none");
      default:
        return failure(GRPC_STATUS.invalidArgument, "The request asks for nothing");
    }
  }

  /** The file and all that it imports, itself first. */
  #fileAnswer(name: string | undefined, notFound: string): object {
    if (name === undefined || !this.#files.has(name)) return failure(GRPC_STATUS.notFound, notFound);
    const names = new Set([name]);
    for (const found of names) for (const needed of this.#files.get(found)?.dependencies ?? []) names.add(needed);
    const bytes = [...names].map((found) => Buffer.from(this.#files.get(found)?.base64 ?? "", "base64"));
    return { file_descriptor_response: { file_descriptor_proto: bytes } };
  }
}

function failure(code: number, message: string): object {
  return { error_response: { error_code: code, error_message: message } };
}

/** Full names of the services below a namespace, sorted. */
function serviceNames(namespace: SchemaNamespace, scope: string): string[] {
  return Object.entries(namespace.nested ?? {})
    .flatMap(([name, member]) => {
      const fullName = scope === "" ? name : `${scope}.${name}`;
      return isService(member) ? [fullName] : serviceNames(member as SchemaNamespace, fullName);
    })
    .sort();
}

function isService(member: object): member is SchemaService {
  return "methods" in member;
}
