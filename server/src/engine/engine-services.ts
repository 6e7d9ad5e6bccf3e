/** Optional services beside a runner. A request that needs a missing one is refused. */
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import type { AdapterLibrary } from "./adapters/adapter-library.ts";
import type { Guides } from "./guide/guides.ts";
import type { LogitsPostProcessors } from "./sample/logits-post-processor.ts";
import type { Drafter } from "./speculation/drafter.ts";

export interface EngineServices {
  /** Finds stop words in the text; without it they are found by their ids. */
  readonly tokenizer?: Tokenizer | undefined;
  readonly guides?: Guides | undefined;
  /** The engine closes it. */
  readonly adapters?: AdapterLibrary | undefined;
  readonly postProcessors?: LogitsPostProcessors | undefined;
  /** Proposes draft tokens by other means than n-gram lookup. The engine closes it. */
  readonly drafter?: Drafter | undefined;
  /** A clock that never goes back, where it is not the system's. */
  readonly nowNs?: (() => number) | undefined;
}
