/** The blocks of a KV cache as a map by number: in use, shared, kept for prefixes, free. */
import type { ConsoleLlm } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { percentText } from "../lib/format.ts";
import { type BlockState, blockCells } from "./rates.ts";

const MAX_CELLS = 1024;
const COLUMNS = 40;
const STEP = 10;
const SIZE = 8;
const TEXTS: Readonly<Record<BlockState, string>> = {
  used: "in use",
  shared: "shared",
  cached: "kept for prefixes",
  free: "free",
};

export function KvMap({ llm }: { readonly llm: ConsoleLlm }): JSX.Element {
  const cells = blockCells(llm, MAX_CELLS);
  const rows = Math.max(1, Math.ceil(cells.length / COLUMNS));
  const perCell = cells.length === 0 ? 0 : Math.ceil(llm.kvBlocksMax / cells.length);
  const share = percentText(llm.kvBlocksUsed / llm.kvBlocksMax);
  const label = `${llm.kvBlocksUsed} of ${llm.kvBlocksMax} blocks in use, ${share}`;
  return (
    <figure class="kv">
      <svg viewBox={`0 0 ${COLUMNS * STEP} ${rows * STEP}`} role="img" aria-label={label}>
        {cells.map(({ state, first, last }, i) => (
          <rect
            key={i}
            class={`block ${state}`}
            x={(i % COLUMNS) * STEP}
            y={Math.floor(i / COLUMNS) * STEP}
            width={SIZE}
            height={SIZE}
            rx={2}
          >
            <title>{`${first === last ? `block ${first}` : `blocks ${first} to ${last}`}: ${TEXTS[state]}`}</title>
          </rect>
        ))}
      </svg>
      <figcaption>
        <span>{label}</span>
        <span class="legend">
          {(["used", "shared", "cached", "free"] as const).map((state) => (
            <span key={state}>
              <i class={`block ${state}`} />
              {TEXTS[state]}
            </span>
          ))}
          <span>
            {perCell === 1 ? "one block" : `${perCell} blocks`} of {llm.tokensPerBlock} tokens a cell
          </span>
        </span>
      </figcaption>
    </figure>
  );
}
