/**
 * Checks the frame of LightGBM's model text: a header, a block for each tree at the place that the header says. The library
 * reads blocks on several threads and ends the process when one is not where it should be. Pure. Source: LightGBM,
 * gbdt_model_text.cpp, `SaveModelToString`.
 */
import { ForestError } from "./forest.ts";

const FIRST_TREE = "\nTree=0";
const SIZES = /^tree_sizes=([\d ]*)$/m;
const SHOWN_CHARACTERS = 40;

/** @throws ForestError that says where the text is not a model */
export function expectLightgbmText(content: Uint8Array): void {
  const text = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  const [firstLine = ""] = text.toString("latin1", 0, SHOWN_CHARACTERS).split(/\r?\n/);
  if (!firstLine.startsWith("tree")) throw refusal(`expected the first line 'tree', got '${firstLine}'`);
  const header = text.indexOf(FIRST_TREE);
  if (header < 0) return; // no trees: the library says what else is missing
  const sizes = SIZES.exec(text.toString("latin1", 0, header));
  if (sizes === null) return; // older than 2.2: read tree by tree, with errors that are returned
  let offset = header + 1;
  for (const [index, size] of (sizes[1] ?? "").split(" ").map(Number).entries()) {
    expectBlock(text, `Tree=${index}`, offset);
    offset += size;
  }
  expectBlock(text, "end of trees", offset);
}

function expectBlock(text: Buffer, start: string, offset: number): void {
  const got = text.toString("latin1", offset, offset + start.length);
  if (got !== start) throw refusal(`expected '${start}' at byte ${offset} of ${text.length}, got '${got}'`);
}

function refusal(text: string): ForestError {
  return new ForestError("LightGBM", `the file is cut off or no model: ${text}`);
}
