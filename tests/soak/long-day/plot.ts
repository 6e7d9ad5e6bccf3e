/** The plot of a long day: memory of the server over hours, with its trend, and its descriptors below. SVG 1.1, plain. */
import type { Sample } from "./state.ts";

const WIDTH = 960;
const PANEL_HEIGHT = 190;
const LEFT = 70;
const TOP = 40;
const GAP = 46;
const MIB = 1024 * 1024;
const TICKS = 4;

interface Panel {
  readonly title: string;
  readonly color: string;
  readonly of: (sample: Sample) => number;
}

const PANELS: readonly Panel[] = [
  {
    title: "resident memory of the server after a collection, MiB",
    color: "#1b6ca8",
    of: (s) => s.residentBytes / MIB,
  },
  { title: "heap and buffers in use, MiB", color: "#2a7f4f", of: (s) => (s.heapBytes + s.externalBytes) / MIB },
  { title: "resident memory of the worker processes, MiB", color: "#8a4b9b", of: (s) => s.childrenBytes / MIB },
  { title: "open descriptors of the server", color: "#b0562b", of: (s) => s.descriptors },
];

export function plotDay(title: string, samples: readonly Sample[]): string {
  const height = TOP + PANELS.length * (PANEL_HEIGHT + GAP);
  const hours = Math.max(...samples.map((sample) => sample.hours), 1e-9);
  const panels = PANELS.map((panel, index) => drawPanel(panel, samples, hours, TOP + index * (PANEL_HEIGHT + GAP)));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">`,
    `<title>${title}</title>`,
    '<rect width="100%" height="100%" fill="#fff"/>',
    `<text x="${LEFT}" y="18" font-size="14">${title}</text>`,
    ...panels,
    "</svg>\n",
  ].join("\n");
}

function drawPanel({ title, color, of }: Panel, samples: readonly Sample[], hours: number, top: number): string {
  const highest = Math.max(...samples.map(of), 1) * 1.1;
  const x = (value: number): number => LEFT + (value / hours) * (WIDTH - LEFT - 20);
  const y = (value: number): number => top + PANEL_HEIGHT - (value / highest) * PANEL_HEIGHT;
  const points = samples.map((sample) => `${x(sample.hours).toFixed(1)},${y(of(sample)).toFixed(1)}`).join(" ");
  const lines = Array.from({ length: TICKS + 1 }, (_, i) => {
    const value = (highest * i) / TICKS;
    const at = y(value).toFixed(1);
    return `<path d="M${LEFT} ${at}H${WIDTH - 20}" stroke="#ddd"/><text x="${LEFT - 6}" y="${at}" text-anchor="end">${value.toFixed(0)}</text>`;
  });
  const times = Array.from({ length: TICKS + 1 }, (_, i) => {
    const value = (hours * i) / TICKS;
    return `<text x="${x(value).toFixed(1)}" y="${top + PANEL_HEIGHT + 15}" text-anchor="middle">${value.toFixed(2)} h</text>`;
  });
  return [
    `<text x="${LEFT}" y="${top - 5}">${title}</text>`,
    ...lines,
    ...times,
    `<polyline points="${points}" fill="none" stroke="${color}" stroke-width="1.5"/>`,
  ].join("\n");
}
