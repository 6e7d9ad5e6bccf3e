/**
 * Exports of the WebAssembly module of the float kernels (sources: see read-floats.ts and write-floats.ts).
 * AssemblyScript; compiled by tools/generate-float-kernels.ts.
 */
export { fillTables } from "./float-tables";
export { readEnd, readFloats } from "./read-floats";
export { writeEnd, writeFloats } from "./write-floats";
