/** Two plots side by side over the number of clients, both axes logarithmic: tokens a second, and the wait for an answer. */
import { SYSTEM_NAMES } from "./report.ts";
import type { Row } from "./results.ts";

const PLOT = { width: 340, height: 260, left: 70, top: 60, gap: 90 } as const;
const LEGEND_LINE = 18;
const COLORS: Readonly<Record<string, string>> = {
  nereid: "#0b7285",
  batched: "#d9480f",
  streamed: "#e8a33d",
  "one-by-one": "#868e96",
};

interface Axis {
  readonly min: number;
  readonly max: number;
}

interface Plot {
  readonly title: string;
  readonly x: number;
  readonly value: (row: Row) => number;
}

export function drawPlot(title: string, rows: readonly Row[]): string {
  const width = 2 * (PLOT.left + PLOT.width) + PLOT.gap - PLOT.left + 20;
  const systems = [...new Set(rows.map(({ system }) => system))];
  const height = PLOT.top + PLOT.height + 50 + LEGEND_LINE * systems.length;
  const plots: readonly Plot[] = [
    { title: "tokens a second", x: PLOT.left, value: ({ tokensPerSecond }) => tokensPerSecond },
    {
      title: "seconds for a whole answer, p50",
      x: PLOT.left + PLOT.width + PLOT.gap,
      value: ({ latencyMs }) => latencyMs.p50 / 1000,
    },
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">
<title>${title}: tokens a second, and seconds for a whole answer, by clients</title>
<rect width="${width}" height="${height}" fill="white"/>
${text(PLOT.left, 24, title, 'font-size="15"')}
${plots.map((plot) => drawOne(plot, systems, rows)).join("\n")}
${systems.map((system, i) => legend(system, PLOT.top + PLOT.height + 50 + i * LEGEND_LINE)).join("\n")}
</svg>
`;
}

function drawOne({ title, x, value }: Plot, systems: readonly string[], rows: readonly Row[]): string {
  const across: Axis = { min: 1, max: Math.max(2, ...rows.map(({ clients }) => clients)) };
  const values = rows.map(value);
  const up: Axis = {
    min: 10 ** Math.floor(Math.log10(Math.min(...values))),
    max: 10 ** Math.ceil(Math.log10(Math.max(...values))),
  };
  const atX = (clients: number): number => x + PLOT.width * share(across, clients);
  const atY = (amount: number): number => PLOT.top + PLOT.height * (1 - share(up, amount));
  const parts = [text(x, PLOT.top - 12, title)];
  for (let amount = up.min; amount <= up.max * 1.001; amount *= 10) {
    const y = fixed(atY(amount));
    parts.push(`<path d="M${x} ${y}H${x + PLOT.width}" stroke="#dee2e6"/>`);
    parts.push(text(x - 8, Number(y) + 4, label(amount), 'text-anchor="end"'));
  }
  for (const clients of new Set(rows.map((row) => row.clients))) {
    parts.push(text(atX(clients), PLOT.top + PLOT.height + 18, String(clients), 'text-anchor="middle"'));
  }
  parts.push(text(x + PLOT.width, PLOT.top + PLOT.height + 34, "clients", 'text-anchor="end"'));
  for (const system of systems) {
    const own = rows.filter((row) => row.system === system).map((row) => [atX(row.clients), atY(value(row))] as const);
    parts.push(line(own, COLORS[system] ?? "black"));
  }
  return parts.join("\n");
}

function line(points: readonly (readonly [number, number])[], color: string): string {
  const path = points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${fixed(x)} ${fixed(y)}`).join("");
  const dots = points.map(([x, y]) => `<circle cx="${fixed(x)}" cy="${fixed(y)}" r="3.5" fill="${color}"/>`);
  return `<path d="${path}" fill="none" stroke="${color}" stroke-width="2"/>${dots.join("")}`;
}

function legend(system: string, y: number): string {
  const color = COLORS[system] ?? "black";
  return `<path d="M${PLOT.left} ${y - 4}h24" stroke="${color}" stroke-width="3"/>${text(PLOT.left + 32, y, SYSTEM_NAMES[system] ?? system)}`;
}

function text(x: number, y: number, content: string, attributes = ""): string {
  return `<text x="${fixed(x)}" y="${fixed(y)}" ${attributes}>${content.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</text>`;
}

function share({ min, max }: Axis, value: number): number {
  return Math.log(value / min) / Math.log(max / min);
}

function label(amount: number): string {
  return amount >= 1 ? Math.round(amount).toLocaleString("en-US") : String(Number(amount.toPrecision(1)));
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}
