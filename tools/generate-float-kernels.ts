/**
 * Compiles wire/assembly (AssemblyScript) into the committed module wire/src/gen/float-kernels.ts: one WebAssembly binary, for a
 * memory of its own and for a shared one. `--check` writes nothing and fails when the committed module is out of date.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const OUTPUT = fileURLToPath(new URL("../wire/src/gen/float-kernels.ts", import.meta.url));
// Started as a program: the types of its interface would replace those of Node.
const COMPILER = createRequire(import.meta.url).resolve("assemblyscript/bin/asc.js");
const OPTIONS = [
  "wire/assembly/index.ts",
  // No allocation and no garbage collector: the kernels use addresses only.
  "--runtime",
  "stub",
  "--noAssert",
  "--optimizeLevel",
  "3",
  "--converge",
  "--enable",
  "simd",
  "--importMemory",
  "--initialMemory",
  "2",
];
// WebAssembly core specification 2.0, 2.5.10: a module declares whether the memory that it imports is shared.
const SHARED_OPTIONS = ["--enable", "threads", "--sharedMemory", "--maximumMemory", "65536"];
const BYTES_PER_LINE = 32;

/** The text of the committed module. @throws Error with the compiler's messages */
export function generate(): string {
  return [
    "// Written by tools/generate-float-kernels.ts from wire/assembly; do not edit.",
    `export const FLOAT_KERNELS: Uint8Array = ${bytesOf(compile(OPTIONS))};`,
    `export const SHARED_FLOAT_KERNELS: Uint8Array = ${bytesOf(compile([...OPTIONS, ...SHARED_OPTIONS]))};`,
    "",
  ].join("\n");
}

function compile(options: readonly string[]): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), "float-kernels-"));
  try {
    const output = join(folder, "float-kernels.wasm");
    execFileSync(process.execPath, [COMPILER, ...options, "--outFile", output], { cwd: ROOT });
    return readFileSync(output);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function bytesOf(binary: Uint8Array): string {
  const lines = Array.from({ length: Math.ceil(binary.length / BYTES_PER_LINE) }, (_, i) =>
    binary.subarray(i * BYTES_PER_LINE, (i + 1) * BYTES_PER_LINE).join(","),
  );
  return `Uint8Array.of(\n${lines.join(",\n")}\n)`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = generate();
  if (!process.argv.includes("--check")) writeFileSync(OUTPUT, text);
  else if (readFileSync(OUTPUT, "utf8") !== text) {
    process.stderr.write(`${OUTPUT} is out of date: run node --import tsx tools/generate-float-kernels.ts\n`);
    process.exitCode = 1;
  }
}
