/**
 * The source of a kernel as C++ for the host: its own text with the headers that it includes, but for what no C++
 * compiler takes: inline assembly and memory whose size the launch chooses. Compiles nothing.
 */
import type { CudaSource } from "../../server/src/native/cuda/nvrtc.ts";
import { translatePtx } from "./translate-ptx.ts";

const INCLUDE = /^#include "([^"]+)"$/;
const DYNAMIC_SHARED = /^extern __shared__ __align__\(\d+\) (\w+) (\w+)\[\];/;

/** @throws Error when a header is missing, or inline assembly cannot be read */
export function translateKernel(source: CudaSource, kernel: string): string {
  const body = inlined(source.name, source.text, source.headers, new Set());
  return `#include "ptx.h"\n${body}\nEMULATED_KERNEL(${kernel})\n`;
}

function inlined(name: string, text: string, headers: ReadonlyMap<string, string>, seen: Set<string>): string {
  const lines = translatePtx(text)
    .split("\n")
    .map((line, i) => translated(name, line, i + 1, headers, seen));
  return `#line 1 "${name}"\n${lines.join("\n")}`;
}

function translated(
  name: string,
  line: string,
  number: number,
  headers: ReadonlyMap<string, string>,
  seen: Set<string>,
): string {
  if (line === "#pragma once") return "";
  const shared = DYNAMIC_SHARED.exec(line);
  if (shared !== null) return `static ${shared[1]}*& ${shared[2]} = emulated::dynamicShared;`;
  const header = INCLUDE.exec(line)?.[1];
  if (header === undefined) return line;
  if (seen.has(header)) return "";
  seen.add(header);
  const text = headers.get(header);
  if (text === undefined) throw new Error(`${name}:${number} includes ${header}, which is not there`);
  return `${inlined(header, text, headers, seen)}\n#line ${number + 1} "${name}"`;
}
