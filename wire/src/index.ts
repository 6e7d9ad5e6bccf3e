/** The door of the package: everything a server or client of the V2 protocol shares. */
export { type Datatype, elementSize, type FixedDatatype, isDatatype } from "./datatype.ts";
