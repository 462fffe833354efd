// The state of the page, and what is derived from it. Everything here is pure.
import { addCounts, type Counts } from "./shares";
import type { App, Cell, Change, Cluster, Excluded, Hub, Phase } from "./types";
import { excludedInWords, inWords, worstFirst } from "./words";

// Above this number of clusters, the columns are folded by region.
export const foldAbove = 50;

// Row is an AppService with an index of its cells.
export interface Row {
  key: string;
  app: App;
  cells: Map<string, Cell>;
  // How many of its clusters are in each phase.
  phases: Counts;
  // The cells that are Failed or Unknown: those that need attention.
  troubled: Cell[];
}

export interface Fleet {
  hub: Hub;
  rows: Map<string, Row>;
  clusters: Map<string, Cluster>;
}

export const emptyFleet: Fleet = { hub: { lastAnswer: "", kinds: [] }, rows: new Map(), clusters: new Map() };

export function rowOf(app: App): Row {
  const cells = new Map<string, Cell>();
  const phases = new Map<Phase, number>();
  const troubled: Cell[] = [];
  for (const cell of app.cells) {
    cells.set(cell.cluster, cell);
    phases.set(cell.phase, (phases.get(cell.phase) ?? 0) + 1);
    if (cell.phase === "Failed" || cell.phase === "Unknown") troubled.push(cell);
  }
  return { key: `${app.namespace}/${app.name}`, app, cells, phases, troubled };
}

// joinParts returns the change that two parts of it are.
export function joinParts(first: Change | undefined, next: Change): Change {
  if (!first) return next;
  return {
    ...next,
    full: first.full,
    clusters: [...(first.clusters ?? []), ...(next.clusters ?? [])],
    apps: [...(first.apps ?? []), ...(next.apps ?? [])],
    gone: [...(first.gone ?? []), ...(next.gone ?? [])],
  };
}

// apply returns the fleet after a change. Its rows, or its clusters, are the same Map if none of them
// changed, so that nothing is computed again for them.
export function apply(fleet: Fleet, change: Change): Fleet {
  const hasGone = (prefix: string) => change.gone?.some((key) => key.startsWith(prefix));
  const rows = change.full ? new Map<string, Row>() : change.apps?.length || hasGone("app/") ? new Map(fleet.rows) : fleet.rows;
  const clusters = change.full ? new Map<string, Cluster>() : change.clusters?.length || hasGone("cluster/") ? new Map(fleet.clusters) : fleet.clusters;
  for (const app of change.apps ?? []) {
    const row = rowOf(app);
    rows.set(row.key, row);
  }
  for (const cluster of change.clusters ?? []) clusters.set(cluster.name, cluster);
  for (const key of change.gone ?? []) {
    if (key.startsWith("app/")) rows.delete(key.slice("app/".length));
    else clusters.delete(key.slice("cluster/".length));
  }
  return { hub: change.hub, rows, clusters };
}

export interface Filter {
  namespace: string;
  label: string;
  phase: Phase | "";
  text: string;
  cluster: string;
  order: "worst" | "name";
}

export const noFilter: Filter = { namespace: "", label: "", phase: "", text: "", cluster: "", order: "worst" };

// matchesLabels reports whether labels meet all of the terms key, key=value, key!=value and !key,
// which are separated by commas.
export function matchesLabels(labels: Record<string, string> | undefined, terms: string): boolean {
  return terms.split(",").every((part) => {
    const term = part.trim();
    if (term === "") return true;
    if (term.startsWith("!")) return labels?.[term.slice(1)] === undefined;
    const unequal = term.split("!=");
    if (unequal.length === 2) return labels?.[unequal[0]!.trim()] !== unequal[1]!.trim();
    const [key, value] = term.split(/==?/);
    const has = labels?.[key!.trim()];
    return value === undefined ? has !== undefined : has === value.trim();
  });
}

// hasPhase reports whether an application is in a phase, as a whole or on any cluster. It is Ready
// only as a whole.
export function hasPhase(row: Row, phase: Phase): boolean {
  return row.app.phase === phase || (phase !== "Ready" && row.phases.has(phase));
}

function matchesText(row: Row, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return true;
  const { app } = row;
  const has = (part: string | undefined) => part !== undefined && part.toLowerCase().includes(wanted);
  return has(row.key) || has(app.reason) || has(app.message) || app.cells.some((cell) => has(cell.reason) || has(cell.cluster));
}

// filterRows returns the applications that a filter shows, in its order.
export function filterRows(fleet: Fleet, filter: Filter): Row[] {
  const rows = [...fleet.rows.values()].filter(
    (row) =>
      (filter.namespace === "" || row.app.namespace === filter.namespace) &&
      (filter.phase === "" || hasPhase(row, filter.phase)) &&
      matchesLabels(row.app.labels, filter.label) &&
      matchesText(row, filter.text),
  );
  const byName = (a: Row, b: Row) => (a.key < b.key ? -1 : 1);
  if (filter.order === "name") return rows.sort(byName);
  return rows.sort((a, b) => compareNeeds(a, b) || byName(a, b));
}

// compareNeeds compares how much two applications need attention: by the number of clusters where they
// are Failed, then by that of each better phase. One that is Failed as a whole, such as one that no
// cluster fits, is Failed at least once.
function compareNeeds(a: Row, b: Row): number {
  const count = (row: Row, phase: Phase) => Math.max(row.phases.get(phase) ?? 0, row.app.phase === phase ? 1 : 0);
  for (const phase of worstFirst) {
    const more = phase === "Ready" ? 0 : count(b, phase) - count(a, phase);
    if (more !== 0) return more;
  }
  return 0;
}

// Column is a cluster, or all clusters of a region.
export type Column =
  | { kind: "cluster"; key: string; cluster: Cluster }
  | { kind: "region"; key: string; region: string; clusters: Cluster[]; open: boolean };

// unknownClusters has the clusters without MemberCluster, so that each is always the same object.
const unknownClusters = new Map<string, Cluster>();

function unknownCluster(name: string): Cluster {
  let cluster = unknownClusters.get(name);
  if (!cluster) unknownClusters.set(name, (cluster = { name, ready: "Unknown" }));
  return cluster;
}

// allClusters returns the MemberClusters, and the clusters that only entries name: their
// MemberCluster is gone, or the user may not read it. It returns the previous list if that is the same.
export function allClusters(fleet: Fleet, previous: Cluster[] = []): Cluster[] {
  const only = new Set<string>();
  for (const row of fleet.rows.values()) {
    for (const name of row.cells.keys()) if (!fleet.clusters.has(name)) only.add(name);
  }
  const all = [...fleet.clusters.values(), ...[...only].sort().map(unknownCluster)];
  return all.length === previous.length && all.every((cluster, i) => cluster === previous[i]) ? previous : all;
}

function matchesCluster(cluster: Cluster, text: string): boolean {
  const wanted = text.trim();
  if (wanted === "") return true;
  if (wanted.includes("=")) return matchesLabels(cluster.labels, wanted);
  return cluster.name.includes(wanted) || (cluster.region ?? "").includes(wanted) || cluster.labels?.[wanted] !== undefined;
}

// Need is how much a column needs attention.
interface Need {
  failed: number;
  notReady: number;
  unknown: number;
}

// needsOf returns how much each cluster needs attention, by what these applications say of it. Clusters
// without an entry need none.
export function needsOf(rows: Row[], clusters: Cluster[]): Map<string, Need> {
  const needs = new Map<string, Need>();
  const of = (name: string) => {
    let need = needs.get(name);
    if (!need) needs.set(name, (need = { failed: 0, notReady: 0, unknown: 0 }));
    return need;
  };
  for (const cluster of clusters) if (cluster.ready !== "True") of(cluster.name).notReady = 1;
  for (const row of rows) {
    for (const cell of row.troubled) of(cell.cluster)[cell.phase === "Failed" ? "failed" : "unknown"]++;
  }
  return needs;
}

const compareNeed = (a: Need, b: Need) => b.failed - a.failed || b.notReady - a.notReady || b.unknown - a.unknown;

// Region has the clusters of a region, by name.
export interface Region {
  name: string;
  clusters: Cluster[];
}

// regionsOf returns the regions of the clusters that a filter shows.
export function regionsOf(all: Cluster[], filter: Pick<Filter, "cluster">): Region[] {
  const regions = new Map<string, Cluster[]>();
  for (const cluster of all) {
    if (!matchesCluster(cluster, filter.cluster)) continue;
    const of = regions.get(cluster.region ?? "");
    if (of) of.push(cluster);
    else regions.set(cluster.region ?? "", [cluster]);
  }
  return [...regions].map(([name, clusters]) => ({ name, clusters: clusters.sort((a, b) => (a.name < b.name ? -1 : 1)) }));
}

// columnsOf returns the columns, in the order in which they need attention, or by name. Many clusters
// are folded by region, except the regions that are open.
export function columnsOf(regions: Region[], order: Filter["order"], needs: ReadonlyMap<string, Need>, open: ReadonlySet<string>): Column[] {
  const none: Need = { failed: 0, notReady: 0, unknown: 0 };
  const needOf = (clusters: Cluster[]) =>
    clusters.reduce((total, { name }) => {
      const need = needs.get(name) ?? none;
      return { failed: total.failed + need.failed, notReady: total.notReady + need.notReady, unknown: total.unknown + need.unknown };
    }, none);
  const sorted = <T>(items: T[], clustersOf: (item: T) => Cluster[], nameOf: (item: T) => string): T[] =>
    items
      .map((item) => ({ item, need: needOf(clustersOf(item)) }))
      .sort((a, b) => (order === "worst" ? compareNeed(a.need, b.need) : 0) || (nameOf(a.item) < nameOf(b.item) ? -1 : 1))
      .map(({ item }) => item);
  const isFolded = regions.reduce((count, { clusters }) => count + clusters.length, 0) > foldAbove;
  return sorted(regions, (region) => region.clusters, (region) => region.name).flatMap(({ name, clusters }): Column[] => {
    const isOpen = open.has(name);
    const head: Column = { kind: "region", key: `r/${name}`, region: name, clusters, open: isOpen };
    if (isFolded && !isOpen) return [head];
    const ordered = sorted(clusters, (cluster) => [cluster], (cluster) => cluster.name);
    const columns = ordered.map((cluster): Column => ({ kind: "cluster", key: `c/${cluster.name}`, cluster }));
    return isFolded ? [head, ...columns] : columns;
  });
}

// fold returns on how many clusters of a region an application is in each phase.
export function fold(row: Row, clusters: Cluster[]): Counts {
  const counts = new Map<Phase, number>();
  for (const cluster of clusters) {
    const phase = row.cells.get(cluster.name)?.phase;
    if (phase) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts;
}

// totalOf returns on how many clusters all of the applications are in each phase.
export function totalOf(rows: Row[]): Counts {
  return rows.reduce((total, row) => addCounts(total, row.phases), new Map<Phase, number>());
}

// whyNotPlaced returns why an application is not placed on a cluster. The status names only three
// clusters for each reason. So more than one reason may be possible, and all of them are returned.
export function whyNotPlaced(app: App, cluster: string): Excluded[] {
  const all = app.excluded ?? [];
  const named = all.find((excluded) => excluded.examples.includes(cluster));
  if (named) return [named];
  return all.filter((excluded) => excluded.count > excluded.examples.length);
}

// notPlacedInWords returns the second line and the explanation of a cell that is not placed.
export function notPlacedInWords(app: App, cluster: string): { short: string; long: string } {
  const possible = whyNotPlaced(app, cluster);
  const first = possible[0];
  if (!first) return { short: "", long: "not placed" };
  const all = possible.map(excludedInWords).join(", or ");
  if (possible.length === 1) {
    const wanted = first.requirements?.length === 1 ? `wanted ${first.requirements[0]}` : "";
    return { short: wanted || inWords(first.reason), long: `not placed: ${all}` };
  }
  return { short: `one of ${possible.length} reasons`, long: `not placed: ${all}; open the cell to see which` };
}

// announce returns what changed, in words for a screen reader.
export function announce(before: Fleet, after: Fleet): string {
  const changes: string[] = [];
  for (const cluster of after.clusters.values()) {
    const old = before.clusters.get(cluster.name);
    if (old && old.ready !== cluster.ready) changes.push(`cluster ${cluster.name} is ${cluster.ready === "True" ? "Ready" : "not Ready"}`);
  }
  for (const row of after.rows.values()) {
    const old = before.rows.get(row.key);
    if (old && old.app.phase !== row.app.phase) changes.push(`${row.key} is ${row.app.phase}`);
  }
  const more = changes.length - 3;
  return changes.slice(0, 3).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

// phaseCounts returns how many applications a filter by each phase would show.
export function phaseCounts(rows: Iterable<Row>): Map<Phase, number> {
  const counts = new Map<Phase, number>();
  for (const row of rows) {
    for (const phase of worstFirst) if (hasPhase(row, phase)) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts;
}
