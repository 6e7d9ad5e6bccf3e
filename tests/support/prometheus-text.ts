/** Reads a metrics page as a scraper does, and refuses what one would refuse. Text format 0.0.4. */
import assert from "node:assert/strict";

export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly type: string;
  readonly help: string;
  readonly series: Series[];
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(.*)\\})? (\\S+)$`);
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)/;
const TYPES = ["counter", "gauge", "histogram", "summary"];
const SUFFIXES: Readonly<Record<string, RegExp>> = {
  counter: /^$/,
  gauge: /^$/,
  histogram: /^_(bucket|sum|count)$/,
  summary: /^(_(sum|count))?$/,
};

/** @throws AssertionError naming the line that is wrong */
export function parseMetricsPage(page: string): Map<string, Family> {
  assert.ok(page.endsWith("\n"), "the page does not end with a line break");
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let current: { readonly name: string; readonly family: Family } | undefined;
  let help = "";
  for (const line of page.slice(0, -1).split("\n")) {
    const [, comment, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (comment === "HELP") help = rest;
    else if (comment === "TYPE") {
      assert.ok(TYPES.includes(rest), line);
      assert.ok(!families.has(name), `family ${name} comes twice`);
      current = { name, family: { type: rest, help, series: [] } };
      families.set(name, current.family);
    } else {
      const series = parseSample(line);
      assert.ok(current !== undefined && series.name.startsWith(current.name), `${line}: in no family`);
      assert.match(series.name.slice(current.name.length), SUFFIXES[current.family.type] ?? /^$/, line);
      const key = line.slice(0, line.lastIndexOf(" "));
      assert.ok(!seen.has(key), `${key} comes twice`);
      seen.add(key);
      current.family.series.push(series);
    }
  }
  for (const [name, family] of families) if (family.type === "histogram") expectHistogram(name, family);
  return families;
}

function parseSample(line: string): Series {
  const [, name = "", inside = "", text = ""] = SAMPLE.exec(line) ?? assert.fail(`no sample: ${line}`);
  const labels: Record<string, string> = {};
  for (let rest = inside; rest !== ""; ) {
    const [all, key = "", value = ""] = LABEL.exec(rest) ?? assert.fail(`labels of ${line}`);
    assert.ok(!Object.hasOwn(labels, key), `label ${key} comes twice: ${line}`);
    labels[key] = value;
    rest = rest.slice(all.length);
  }
  const value = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
  assert.ok(text === "Nan" || !Number.isNaN(value), `no number: ${line}`);
  return { name, labels, value };
}

/** Buckets only grow, and the last one holds all. */
function expectHistogram(name: string, { series }: Family): void {
  const groups = new Map<string, Series[]>();
  for (const each of series) {
    const { le: _, ...others } = each.labels;
    const key = JSON.stringify(others);
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  for (const [key, group] of groups) {
    const buckets = group.filter((each) => each.name === `${name}_bucket`);
    const bounds = buckets.map(({ labels }) => (labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le)));
    assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY, `${name} ${key}: no bucket for all`);
    for (const [i, { value }] of buckets.entries()) {
      if (i === 0) continue;
      assert.ok((bounds[i] ?? 0) > (bounds[i - 1] ?? 0), `${name} ${key}: bounds`);
      assert.ok(value >= (buckets[i - 1]?.value ?? 0), `${name} ${key}: counts`);
    }
    assert.equal(group.find((each) => each.name === `${name}_count`)?.value, buckets.at(-1)?.value, `${name} ${key}`);
  }
}

/** The sum over the series of a family whose labels contain those given. @throws when there is none */
export function sumOf(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
  suffix = "",
): number {
  const found = families
    .get(name)
    ?.series.filter(
      (each) =>
        each.name === name + suffix && Object.entries(labels).every(([key, value]) => each.labels[key] === value),
    );
  assert.ok(found !== undefined && found.length > 0, `no series of ${name}${suffix} with ${JSON.stringify(labels)}`);
  return found.reduce((sum, { value }) => sum + value, 0);
}
