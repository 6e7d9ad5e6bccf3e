/** A report as one HTML file: tables and plots in SVG, no script, nothing loaded. Pure. */

export interface Plot {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly PlotSeries[];
}

export interface PlotSeries {
  readonly name: string;
  /** In the order in which they are joined. */
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Marks without a line. */
  readonly isScatter?: boolean;
}

export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface ReportPage {
  readonly title: string;
  /** Command line, server, date. */
  readonly facts: readonly (readonly [name: string, value: string])[];
  readonly warnings: readonly string[];
  readonly tables: readonly Table[];
  readonly plots: readonly Plot[];
}

const WIDTH = 640;
const HEIGHT = 320;
const LEFT = 70;
const BOTTOM = 45;
const TOP = 12;
const RIGHT = 12;
const NUM_TICKS = 5;
const MARKED_POINTS = 60;
const COLORS = ["#0b6bcb", "#c4420e", "#2a7a2a", "#7a3fa0", "#8a6d00"];
const STYLE = `body{font:15px/1.45 system-ui,sans-serif;max-width:1400px;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}th,td{padding:.25rem .7rem;border-bottom:1px solid #d0d7de;text-align:right}
th:first-child,td:first-child{text-align:left}.plots{display:flex;flex-wrap:wrap;gap:1.5rem}figure{margin:0}svg{max-width:100%}
.warning{color:#8a3300}dt{font-weight:600}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dd{margin:0;overflow-wrap:anywhere}
.line{stroke:currentColor;opacity:.2}text{fill:currentColor;font-size:12px}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}.warning{color:#ffab70}}`;

export function htmlPage({ title, facts, warnings, tables, plots }: ReportPage): string {
  const body = [
    `<h1>${escaped(title)}</h1>`,
    `<dl>${facts.map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`).join("")}</dl>`,
    ...warnings.map((warning) => `<p class="warning">${escaped(warning)}</p>`),
    ...tables.map(tableHtml),
    `<div class="plots">${plots.map(plotHtml).join("\n")}</div>`,
  ];
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(title)}</title><style>${STYLE}</style>`;
  return `<!doctype html>\n<html lang="en"><head>${head}</head><body>\n${body.join("\n")}\n</body></html>\n`;
}

function tableHtml({ title, head, rows }: Table): string {
  const cells = (tag: string, row: readonly string[]): string =>
    `<tr>${row.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join("")}</tr>`;
  return `<h2>${escaped(title)}</h2><table><thead>${cells("th", head)}</thead><tbody>${rows.map((row) => cells("td", row)).join("")}</tbody></table>`;
}

function plotHtml(plot: Plot): string {
  const points = plot.series.flatMap((series) => series.points);
  const xs = axis(points.map(([x]) => x));
  const ys = axis([0, ...points.map(([, y]) => y)]);
  const px = (x: number): number => LEFT + ((x - xs.min) / (xs.max - xs.min)) * (WIDTH - LEFT - RIGHT);
  const py = (y: number): number => HEIGHT - BOTTOM - ((y - ys.min) / (ys.max - ys.min)) * (HEIGHT - BOTTOM - TOP);
  const grid = [
    ...ys.ticks.map(
      (y) =>
        `<path class="line" d="M${LEFT} ${at(py(y))}H${WIDTH - RIGHT}"/><text x="${LEFT - 6}" y="${at(py(y) + 4)}" text-anchor="end">${short(y)}</text>`,
    ),
    ...xs.ticks.map(
      (x) => `<text x="${at(px(x))}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${short(x)}</text>`,
    ),
  ];
  const lines = plot.series.map((series, k) => seriesSvg(series, COLORS[k % COLORS.length] ?? "", px, py));
  const names = plot.series.map(({ name }, k) => `<tspan fill="${COLORS[k % COLORS.length]}">${escaped(name)}</tspan>`);
  const labels = [
    `<text x="${WIDTH / 2}" y="${HEIGHT - 8}" text-anchor="middle">${escaped(plot.xLabel)}</text>`,
    `<text transform="translate(14 ${HEIGHT / 2}) rotate(-90)" text-anchor="middle">${escaped(plot.yLabel)}</text>`,
    `<text x="${LEFT + 8}" y="${TOP + 12}">${names.join(" &#160; ")}</text>`,
  ];
  const svg = `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" role="img" aria-label="${escaped(plot.title)}">${[...grid, ...lines, ...labels].join("")}</svg>`;
  return `<figure><figcaption><b>${escaped(plot.title)}</b></figcaption>${svg}</figure>`;
}

function seriesSvg(
  { points, isScatter = false }: PlotSeries,
  color: string,
  px: (x: number) => number,
  py: (y: number) => number,
): string {
  const finite = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const path = finite.map(([x, y], k) => `${k === 0 ? "M" : "L"}${at(px(x))} ${at(py(y))}`).join("");
  const marks =
    finite.length > MARKED_POINTS && !isScatter
      ? []
      : finite.map(([x, y]) => `<circle cx="${at(px(x))}" cy="${at(py(y))}" r="3" fill="${color}"/>`);
  const line = isScatter ? "" : `<path d="${path}" fill="none" stroke="${color}" stroke-width="2"/>`;
  return `${line}${marks.join("")}`;
}

/** Ends and ticks at round numbers: 1, 2 or 5 times a power of ten. */
function axis(values: readonly number[]): {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly number[];
} {
  const finite = values.filter(Number.isFinite);
  const low = finite.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const high = finite.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  if (finite.length === 0 || high === low) {
    const center = finite.length === 0 ? 0 : low;
    return { min: center - 1, max: center + 1, ticks: [center] };
  }
  const raw = (high - low) / NUM_TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
  const min = Math.floor(low / step) * step;
  const max = Math.ceil(high / step) * step;
  return { min, max, ticks: Array.from({ length: Math.round((max - min) / step) + 1 }, (_, k) => min + k * step) };
}

/** Cumulative distribution of samples: percent below each value, at most `count` points. */
export function distribution(samples: readonly number[], count = 200): readonly (readonly [number, number])[] {
  const sorted = [...samples].sort((a, b) => a - b);
  if (sorted.length === 0) return [];
  return Array.from({ length: Math.min(count, sorted.length) }, (_, k, num = Math.min(count, sorted.length)) => {
    const rank = num === 1 ? 0 : Math.round((k / (num - 1)) * (sorted.length - 1));
    return [sorted[rank] ?? 0, ((rank + 1) / sorted.length) * 100] as const;
  });
}

function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(4)));
}

function at(value: number): string {
  return value.toFixed(1);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
