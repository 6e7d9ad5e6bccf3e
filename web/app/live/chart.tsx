/** Lines over time, drawn by uPlot. Screen readers get the newest values as text. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import { secondText } from "../lib/format.ts";
import { resolvedColor } from "../shell/theme.ts";
import type { LivePoint } from "./rates.ts";

export interface ChartSeries {
  readonly label: string;
  /** Custom property. */
  readonly color: string;
  readonly read: (point: LivePoint) => number;
  readonly text: (value: number) => string;
}

interface ChartProps {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly ChartSeries[];
  readonly points: readonly LivePoint[];
}

const HEIGHT = 170;
const LINE_WIDTH = 2;
const AXIS_WIDTH = 56;
const X_AXIS_HEIGHT = 28;
const X_LABEL_WIDTH = 80;
/** Shown at least, so that the first points do not fill the width. */
const MIN_RANGE_S = 60;

export function Chart({ title, unit, series, points }: ChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const data = dataOf(series, points);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const home = place.current;
    if (home === null) return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new UPlot(optionsOf(series, home.clientWidth), latest.current, home);
    };
    draw();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: home.clientWidth, height: HEIGHT }));
    observer.observe(home);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", draw);
    dark.addEventListener("change", draw);
    return () => {
      removeEventListener("themechange", draw);
      dark.removeEventListener("change", draw);
      observer.disconnect();
      plot.current?.destroy();
    };
  }, [series]);
  useEffect(() => plot.current?.setData(data));
  const newest = points.at(-1);
  return (
    <section class="card chart">
      <h2>
        {title} <span class="muted">{unit}</span>
      </h2>
      <div ref={place} class="plot" aria-hidden="true" />
      <ul class="legend">
        {series.map(({ label, color, read, text }) => (
          <li key={label}>
            <i class="key" data-color={color.slice(2)} />
            {label} <strong>{newest === undefined ? "–" : text(read(newest))}</strong>
          </li>
        ))}
      </ul>
    </section>
  );
}

function dataOf(series: readonly ChartSeries[], points: readonly LivePoint[]): UPlot.AlignedData {
  const values = series.map(({ read }) => points.map(read).map((value) => (Number.isFinite(value) ? value : null)));
  return [points.map(({ atS }) => atS), ...values];
}

function optionsOf(series: readonly ChartSeries[], width: number): UPlot.Options {
  const text = resolvedColor("--muted");
  const lines = { stroke: resolvedColor("--border"), width: 1 };
  const [first] = series;
  const font = "11px system-ui, sans-serif";
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, from, to) => (to === null ? [0, 1] : [Math.min(from, to - MIN_RANGE_S), to]) },
      y: { range: (_, __, to) => [0, to === null || to === 0 ? 1 : to * 1.1] },
    },
    axes: [
      {
        stroke: text,
        grid: { show: false },
        ticks: { show: false },
        font,
        size: X_AXIS_HEIGHT,
        space: X_LABEL_WIDTH,
        values: (_, ticks) => ticks.map((tick) => secondText(tick)),
      },
      {
        stroke: text,
        grid: lines,
        ticks: { show: false },
        font,
        size: AXIS_WIDTH,
        values: (_, ticks) => ticks.map((tick) => first?.text(tick) ?? String(tick)),
      },
    ],
    series: [
      {},
      ...series.map(({ label, color }) => ({
        label,
        stroke: resolvedColor(color),
        width: LINE_WIDTH,
        points: { show: false },
      })),
    ],
  };
}
