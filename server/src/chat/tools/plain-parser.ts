/** The parser of an answer without calls: all of it is text. */
import type { OutputDelta, OutputParser } from "../chat-contract.ts";

const NO_DELTAS: readonly OutputDelta[] = [];

export class PlainParser implements OutputParser {
  push(text: string): readonly OutputDelta[] {
    return text === "" ? NO_DELTAS : [{ type: "text", text }];
  }

  end(): readonly OutputDelta[] {
    return NO_DELTAS;
  }
}
