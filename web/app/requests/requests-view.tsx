/** The last requests, and one of them as a waterfall. The server traces requests while this view is open. */
import type { ConsoleTrace, ConsoleTraceRow, ConsoleTraces } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../lib/api.ts";
import { useConsole } from "../lib/context.ts";
import { clockText, msText } from "../lib/format.ts";
import { linkTo, usePoll } from "../lib/hooks.ts";
import { Waterfall } from "./waterfall.tsx";

const POLL_MS = 2000;

export function RequestsView({ selected }: { readonly selected: string | undefined }): JSX.Element {
  const { api } = useConsole();
  const [order, setOrder] = useState<"newest" | "slowest">("newest");
  const { value, error } = usePoll<ConsoleTraces>((signal) => api.get("/console/api/traces", signal), POLL_MS, api);
  const traces = value?.traces ?? [];
  const sorted = order === "newest" ? traces : [...traces].sort((a, b) => b.durationMs - a.durationMs);
  return (
    <>
      <div class="head">
        <h1>Requests</h1>
        <label class="inline">
          <span>Order</span>
          <select
            value={order}
            onChange={({ currentTarget }) => setOrder(currentTarget.value === "slowest" ? "slowest" : "newest")}
          >
            <option value="newest">newest first</option>
            <option value="slowest">slowest first</option>
          </select>
        </label>
      </div>
      {error !== undefined && <p class="notice bad">{error}</p>}
      {selected !== undefined && <Detail id={selected} />}
      {traces.length === 0 ? (
        <p class="empty">Requests are traced while this view is open. The next one appears here.</p>
      ) : (
        <TraceTable traces={sorted} selected={selected} />
      )}
    </>
  );
}

interface TraceTableProps {
  readonly traces: readonly ConsoleTraceRow[];
  readonly selected: string | undefined;
}

function TraceTable({ traces, selected }: TraceTableProps): JSX.Element {
  const slowest = Math.max(...traces.map(({ durationMs }) => durationMs));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls must be reachable by keyboard (WCAG 2.1.1)
    <section class="card scroll" tabIndex={0} aria-label="Requests that were traced">
      <table class="traces">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Model</th>
            <th scope="col">Duration</th>
            <th scope="col" class="number">
              Queue
            </th>
            <th scope="col" class="number">
              Compute
            </th>
            <th scope="col" class="number">
              Responses
            </th>
          </tr>
        </thead>
        <tbody>
          {traces.map((trace) => (
            <TraceTableRow
              key={trace.id}
              trace={trace}
              slowestMs={slowest}
              isSelected={String(trace.id) === selected}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface TraceTableRowProps {
  readonly trace: ConsoleTraceRow;
  readonly slowestMs: number;
  readonly isSelected: boolean;
}

function TraceTableRow({ trace, slowestMs, isSelected }: TraceTableRowProps): JSX.Element {
  const { id, startMs, model, durationMs, queueMs, computeMs, numResponses } = trace;
  return (
    <tr class={isSelected ? "selected" : ""}>
      <td>
        <a href={linkTo("requests", String(id))} aria-current={isSelected ? "true" : undefined}>
          {clockText(startMs)}
        </a>
      </td>
      <td>{model}</td>
      <td>
        <div class="duration">
          <meter min={0} max={slowestMs} value={durationMs} aria-label="Duration beside the slowest" />
          <span>{msText(durationMs)}</span>
        </div>
      </td>
      <td class="number">{msText(queueMs)}</td>
      <td class="number">{msText(computeMs)}</td>
      <td class="number">{numResponses}</td>
    </tr>
  );
}

function Detail({ id }: { readonly id: string }): JSX.Element {
  const { api } = useConsole();
  const [trace, setTrace] = useState<ConsoleTrace | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  useEffect(() => {
    setTrace(undefined);
    setError(undefined);
    api
      .get<ConsoleTrace>(`/console/api/traces/${encodeURIComponent(id)}`)
      .then(setTrace)
      .catch((thrown: unknown) => setError(messageOf(thrown)));
  }, [api, id]);
  if (error !== undefined) return <p class="notice bad">{error}</p>;
  return trace === undefined ? <p class="empty">Asking the server</p> : <Waterfall trace={trace} />;
}
