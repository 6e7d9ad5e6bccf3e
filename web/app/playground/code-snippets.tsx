/** The request that the playground would send, in the language of one's choice, to be copied. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useStored } from "../lib/hooks.ts";
import type { Snippets } from "./snippets.ts";

const LANGUAGES = ["curl", "Python", "TypeScript"] as const;
const COPIED_MS = 2000;

/** `problem`: why there is no request to show. */
export function CodeSnippets({
  snippets,
  problem,
}: {
  snippets: Snippets | undefined;
  problem?: string | undefined;
}): JSX.Element {
  const [language, setLanguage] = useStored<(typeof LANGUAGES)[number]>(localStorage, "nereid-language", "curl");
  const [isCopied, setCopied] = useState(false);
  const text = snippets?.[language] ?? "";
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return (
    <section class="card snippets" aria-label="The same request in code">
      <div class="row spread">
        <fieldset class="row plain" aria-label="Language">
          {LANGUAGES.map((each) => (
            <button
              key={each}
              type="button"
              class="toggle"
              aria-pressed={each === language}
              onClick={() => setLanguage(each)}
            >
              {each}
            </button>
          ))}
        </fieldset>
        <button type="button" disabled={snippets === undefined} onClick={() => void copy()}>
          {isCopied ? "Copied" : "Copy"}
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1) */}
      <pre tabIndex={0}>{snippets === undefined ? (problem ?? "") : text}</pre>
    </section>
  );
}
