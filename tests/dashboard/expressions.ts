/** The PromQL expressions of dashboards (Grafana's JSON model) and of alert rules (Prometheus's "Alerting rules"). */
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

export const DASHBOARDS: string = fileURLToPath(new URL("../../docs/grafana", import.meta.url));
export const ALERTS: string = fileURLToPath(new URL("../../packaging/prometheus/alerts.yml", import.meta.url));

export interface Dashboard {
  readonly uid: string;
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
  readonly templating: { readonly list: readonly { readonly type: string; readonly query: string }[] };
}

export interface AlertRule {
  readonly alert: string;
  readonly expression: string;
}

/** Expressions of panels, then the queries of variables. */
export function expressionsOf({ panels, templating }: Dashboard): readonly string[] {
  const queries = templating.list.filter(({ type }) => type === "query");
  return [...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)), ...queries.map(({ query }) => query)];
}

export function rulesOf(text: string): readonly AlertRule[] {
  const { groups } = parse(text) as { groups: readonly { rules: readonly { alert: string; expr: string }[] }[] };
  return groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => ({ alert, expression: expr })));
}
