/** The door of the package: everything a server or client of the V2 protocol shares. */
export { type Datatype, elementSize, type FixedDatatype, isDatatype } from "./datatype.ts";
export { fileDescriptors } from "./gen/descriptors.ts";
export { schema } from "./gen/schema.ts";
export type {
  SchemaEnum,
  SchemaField,
  SchemaMethod,
  SchemaNamespace,
  SchemaService,
  SchemaType,
} from "./proto/schema-types.ts";
