/**
 * The JSON descriptor of protobufjs (https://github.com/protobufjs/protobuf.js, "Using JSON descriptors"), as far as
 * the generated schema uses it. Imports no protobufjs.
 */

export interface SchemaNamespace {
  readonly options?: Readonly<Record<string, unknown>>;
  readonly nested?: Readonly<Record<string, SchemaNamespace | SchemaType | SchemaEnum | SchemaService>>;
}

export interface SchemaType extends SchemaNamespace {
  readonly fields: Readonly<Record<string, SchemaField>>;
  readonly oneofs?: Readonly<Record<string, { readonly oneof: string[] }>>;
}

export interface SchemaField {
  readonly type: string;
  readonly id: number;
  readonly rule?: string;
  /** Set on map fields only. */
  readonly keyType?: string;
  readonly options?: Readonly<Record<string, unknown>>;
}

export interface SchemaEnum {
  readonly values: Readonly<Record<string, number>>;
}

export interface SchemaService {
  readonly methods: Readonly<Record<string, SchemaMethod>>;
}

export interface SchemaMethod {
  readonly requestType: string;
  readonly responseType: string;
  readonly requestStream?: boolean;
  readonly responseStream?: boolean;
}

/** One .proto file, for server reflection. */
export interface FileDescriptor {
  /** Files that it imports. */
  readonly dependencies: readonly string[];
  /** Full names of its messages, enums, services and methods. */
  readonly symbols: readonly string[];
  /** A serialized google.protobuf.FileDescriptorProto. */
  readonly base64: string;
}
