/** What the server does now: rates, queues, latencies, tokens, and the caches of language models. */
import type { ConsoleLive, ConsoleModelLoad } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { useConsole } from "../lib/context.ts";
import { bytesText, msText, percentText, shortNumber } from "../lib/format.ts";
import { usePoll } from "../lib/hooks.ts";
import { BatchSizes } from "./batch-sizes.tsx";
import { Chart, type ChartSeries } from "./chart.tsx";
import { KvMap } from "./kv-map.tsx";
import { type LivePoint, livePoint, modelsOf } from "./rates.ts";

const POLL_MS = 2000;
/** Ten minutes. */
const MAX_POINTS = 300;

interface ChartRow {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly ChartSeries[];
  /** Only where a language model is served. */
  readonly isOfTokens?: boolean;
}

const CHARTS: readonly ChartRow[] = [
  {
    title: "Requests",
    unit: "per second",
    series: [
      { label: "succeeded", color: "--chart-1", read: (p) => p.requestsPerS, text: shortNumber },
      { label: "failed", color: "--chart-4", read: (p) => p.failuresPerS, text: shortNumber },
    ],
  },
  {
    title: "Latency",
    unit: "of the last minute",
    series: [
      { label: "p50", color: "--chart-1", read: (p) => p.p50Ms, text: msText },
      { label: "p90", color: "--chart-2", read: (p) => p.p90Ms, text: msText },
      { label: "p99", color: "--chart-3", read: (p) => p.p99Ms, text: msText },
    ],
  },
  {
    title: "Queue",
    unit: "requests",
    series: [
      { label: "waiting", color: "--chart-3", read: (p) => p.pending, text: shortNumber },
      { label: "in flight", color: "--chart-1", read: (p) => p.inFlight, text: shortNumber },
    ],
  },
  {
    title: "Tokens",
    unit: "generated per second",
    isOfTokens: true,
    series: [{ label: "tokens", color: "--chart-2", read: (p) => p.tokensPerS, text: shortNumber }],
  },
];

/** Points of one choice of models, made as answers come. */
function usePoints(model: string): {
  readonly live: ConsoleLive | undefined;
  readonly points: readonly LivePoint[];
  readonly error: string | undefined;
} {
  const { api } = useConsole();
  const history = useRef<readonly ConsoleLive[]>([]);
  const { value, error } = usePoll<ConsoleLive>((signal) => api.get("/console/api/live", signal), POLL_MS, api);
  if (value !== undefined && history.current.at(-1) !== value) {
    history.current = [...history.current, value].slice(-MAX_POINTS - 1);
  }
  const points = history.current.slice(1).flatMap((now, i) => {
    const before = history.current[i];
    return before === undefined || before.atMs >= now.atMs ? [] : [livePoint(before, now, model)];
  });
  return { live: history.current.at(-1), points, error };
}

export function LiveView(): JSX.Element {
  const [model, setModel] = useState("");
  const { live, points, error } = usePoints(model);
  const own = live === undefined ? [] : modelsOf(live, model);
  const llms = own.filter(({ llm }) => llm !== undefined);
  const names = [...new Set(live?.models.map(({ name }) => name) ?? [])];
  return (
    <>
      <div class="head">
        <h1>Live</h1>
        <label class="inline">
          <span>Model</span>
          <select value={model} onChange={({ currentTarget }) => setModel(currentTarget.value)}>
            <option value="">All models</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </div>
      {error !== undefined && <p class="notice bad">{error}</p>}
      <Figures live={live} point={points.at(-1)} hasTokens={llms.length > 0} />
      <div class="charts">
        {CHARTS.filter(({ isOfTokens }) => isOfTokens !== true || llms.length > 0).map(({ title, unit, series }) => (
          <Chart key={title} title={title} unit={unit} series={series} points={points} />
        ))}
        <BatchSizes models={own} />
        {llms.map((load) => (
          <LlmCard key={`${load.name}/${load.version}`} load={load} />
        ))}
      </div>
    </>
  );
}

interface FiguresProps {
  readonly live: ConsoleLive | undefined;
  readonly point: LivePoint | undefined;
  readonly hasTokens: boolean;
}

function Figures({ live, point, hasTokens }: FiguresProps): JSX.Element {
  const unknown = Number.NaN;
  const figures: readonly (readonly [label: string, value: string])[] = [
    ["Requests / s", shortNumber(point?.requestsPerS ?? unknown)],
    ["p99 latency", msText(point?.p99Ms ?? unknown)],
    ["Queue wait", msText(point?.queueMs ?? unknown)],
    ["Mean batch", shortNumber(point?.batchSize ?? unknown)],
    ...(hasTokens
      ? ([
          ["Tokens / s", shortNumber(point?.tokensPerS ?? unknown)],
          ["Prefix hits", percentText(point?.prefixHitShare ?? unknown)],
          ["Drafts taken", percentText(point?.draftShare ?? unknown)],
        ] as const)
      : []),
    ["Processor", percentText(point?.cpuShare ?? unknown)],
    ["Memory", live === undefined ? "–" : bytesText(live.process.rssBytes)],
  ];
  return (
    <dl class="figures">
      {figures.map(([label, value]) => (
        <div key={label} class="card figure">
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function LlmCard({ load }: { readonly load: ConsoleModelLoad }): JSX.Element | null {
  const { llm, name } = load;
  if (llm === undefined) return null;
  return (
    <section class="card chart">
      <h2>
        KV cache <span class="muted">of {name}</span>
      </h2>
      <KvMap llm={llm} />
      <p class="muted">
        {llm.active} of {llm.maxRequests} sequences active, {llm.waiting} waiting. {llm.kvBlocksReused} blocks taken
        from the prefix cache, {llm.acceptedDraftTokens} of {llm.draftTokens} draft tokens accepted.
      </p>
    </section>
  );
}
