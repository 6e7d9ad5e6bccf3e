/** One request over time: a row for each part of each model that took part, and a tick for each response of a stream. */
import type { ConsoleSpan, ConsoleTrace } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { msText, percentText, plural } from "../lib/format.ts";
import { linkTo } from "../lib/hooks.ts";
import { Icon } from "../shell/icons.tsx";
import { lengthOf, longestGap, longestSpan, SPAN_TEXTS, ticksOf } from "./spans.ts";

const HUNDRED = 100;
/** Narrower bars could not be seen. */
const MIN_WIDTH = 0.4;

export function Waterfall({ trace }: { readonly trace: ConsoleTrace }): JSX.Element {
  const { spans, model, durationMs, requestId } = trace;
  return (
    <section class="card waterfall" aria-label={`Waterfall of a request of ${model}`}>
      <div class="waterfall-head">
        <h2>
          {model} <span class="muted">{msText(durationMs)}</span>
        </h2>
        {requestId !== "" && <code>{requestId}</code>}
        <a class="icon-button" href={linkTo("requests")} aria-label="Close the waterfall">
          <Icon name="close" />
        </a>
      </div>
      <Summary trace={trace} />
      <Axis totalMs={durationMs} />
      <ol class="spans">
        {spans.map((span) => (
          <SpanRow key={`${span.depth} ${span.model} ${span.kind} ${span.startMs}`} span={span} trace={trace} />
        ))}
      </ol>
      <Responses trace={trace} />
    </section>
  );
}

function Summary({ trace }: { readonly trace: ConsoleTrace }): JSX.Element {
  const longest = longestSpan(trace.spans);
  const gap = longestGap(trace);
  return (
    <p class="summary">
      {longest !== undefined && (
        <span data-testid="longest">
          Longest part: <strong>{SPAN_TEXTS[longest.kind]}</strong> of <strong>{longest.model}</strong>,{" "}
          {msText(lengthOf(longest))} ({percentText(lengthOf(longest) / trace.durationMs)})
        </span>
      )}
      {gap !== undefined && (
        <span data-testid="gap">
          Longest silence between responses: {msText(gap.lengthMs)} at {msText(gap.fromMs)}
        </span>
      )}
    </p>
  );
}

function Axis({ totalMs }: { readonly totalMs: number }): JSX.Element {
  return (
    <div class="span-row axis" aria-hidden="true">
      <span />
      <div class="track">
        {ticksOf(totalMs).map((ms) => (
          <span key={ms} class="tick" style={{ left: `${(ms / totalMs) * HUNDRED}%` }}>
            {msText(ms)}
          </span>
        ))}
      </div>
      <span />
    </div>
  );
}

interface SpanRowProps {
  readonly span: ConsoleSpan;
  readonly trace: ConsoleTrace;
}

function SpanRow({ span, trace }: SpanRowProps): JSX.Element {
  const { kind, model, depth, startMs } = span;
  const isLongest = longestSpan(trace.spans) === span;
  const left = (startMs / trace.durationMs) * HUNDRED;
  const width = Math.max(MIN_WIDTH, (lengthOf(span) / trace.durationMs) * HUNDRED);
  return (
    <li class={`span-row ${kind} ${isLongest ? "longest" : ""}`}>
      <span class={`span-name depth-${Math.min(depth, 4)}`}>
        {kind === "request" ? <strong>{model}</strong> : SPAN_TEXTS[kind]}
      </span>
      <div class="track" aria-hidden="true">
        <span class="bar" style={{ left: `${Math.min(left, HUNDRED - MIN_WIDTH)}%`, width: `${width}%` }} />
      </div>
      <span class="span-time">{msText(lengthOf(span))}</span>
    </li>
  );
}

function Responses({ trace: { responsesMs, durationMs } }: { readonly trace: ConsoleTrace }): JSX.Element | null {
  if (responsesMs.length < 2) return null;
  const label = `${plural(responsesMs.length, "response")} of the stream`;
  return (
    <div class="span-row responses">
      <span class="span-name">
        <strong>tokens</strong>
      </span>
      <svg class="track" viewBox={`0 0 ${durationMs} 10`} preserveAspectRatio="none" role="img" aria-label={label}>
        <path d={responsesMs.map((ms) => `M${ms.toFixed(3)} 0V10`).join("")} vector-effect="non-scaling-stroke" />
      </svg>
      <span class="span-time">{responsesMs.length}</span>
    </div>
  );
}
