/** The log of the server, filtered by level and text. The newest records are below, and the view follows them. */
import type { ConsoleLogRecord, ConsoleLogs } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useConsole } from "../lib/context.ts";
import { clockText } from "../lib/format.ts";
import { usePoll } from "../lib/hooks.ts";

const POLL_MS = 2000;
const MAX_SHOWN = 2000;
const LEVELS = ["error", "warning", "info", "verbose"] as const;
type Level = (typeof LEVELS)[number];
const TONES: Readonly<Record<Level, string>> = { error: "bad", warning: "warn", info: "idle", verbose: "idle" };

/** Records of one filter; another filter starts anew. */
function useLogs(
  levels: readonly Level[],
  text: string,
): { readonly records: readonly ConsoleLogRecord[]; readonly error: string | undefined } {
  const { api } = useConsole();
  const query = new URLSearchParams([...levels.map((level) => ["level", level]), ["text", text]]).toString();
  const kept = useRef<{ query: string; lastId: number; records: readonly ConsoleLogRecord[] }>({
    query,
    lastId: 0,
    records: [],
  });
  if (kept.current.query !== query) kept.current = { query, lastId: 0, records: [] };
  const { error } = usePoll(
    async (signal) => {
      const { lastId } = kept.current;
      const answer = await api.get<ConsoleLogs>(`/console/api/logs?after=${lastId}&${query}`, signal);
      if (kept.current.query !== query || kept.current.lastId !== lastId) return answer;
      const records = [...kept.current.records, ...answer.records].slice(-MAX_SHOWN);
      kept.current = { query, lastId: answer.lastId, records };
      return answer;
    },
    POLL_MS,
    `${api.credentials.key} ${query}`,
  );
  return { records: kept.current.records, error };
}

export function LogsView(): JSX.Element {
  const [levels, setLevels] = useState<readonly Level[]>(LEVELS);
  const [text, setText] = useState("");
  const [follows, setFollows] = useState(true);
  const { records, error } = useLogs(levels, text);
  const toggle = (level: Level): void =>
    setLevels(levels.includes(level) ? levels.filter((each) => each !== level) : [...levels, level]);
  return (
    <div class="fill">
      <div class="head">
        <h1>Logs</h1>
        <div class="row">
          {LEVELS.map((level) => (
            <button
              key={level}
              type="button"
              class="toggle"
              aria-pressed={levels.includes(level)}
              onClick={() => toggle(level)}
            >
              {level}
            </button>
          ))}
          <input
            type="search"
            placeholder="Text in a record"
            aria-label="Filter records by text"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
          <label class="inline">
            <input
              type="checkbox"
              checked={follows}
              onChange={({ currentTarget }) => setFollows(currentTarget.checked)}
            />
            Follow
          </label>
        </div>
      </div>
      {error !== undefined && <p class="notice bad">{error}</p>}
      {levels.length === 0 ? (
        <p class="empty">Choose at least one level.</p>
      ) : (
        <Records records={records} follows={follows} />
      )}
    </div>
  );
}

interface RecordsProps {
  readonly records: readonly ConsoleLogRecord[];
  readonly follows: boolean;
}

function Records({ records, follows }: RecordsProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const newest = records.at(-1)?.id;
  useEffect(() => {
    if (follows && place.current !== null) place.current.scrollTop = place.current.scrollHeight;
  }, [follows, newest]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
    <section ref={place} class="card log" tabIndex={0} aria-label="Records of the log">
      {records.length === 0 && <p class="empty small">No record fits.</p>}
      <ol>
        {records.map(({ id, atMs, level, location: where, message }) => (
          <li key={id} class={level}>
            <time>{clockText(atMs)}</time>
            <span class={`badge ${TONES[level]}`}>{level}</span>
            <span class="where">{where}</span>
            <span class={message.includes("\n") ? "message table" : "message"}>{message}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
