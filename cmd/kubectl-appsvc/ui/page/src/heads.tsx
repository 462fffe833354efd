import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import type { Column, Row } from "./model";
import { Name } from "./name";
import { barOf, countsInWords, sharesOf, type Share } from "./shares";
import type { Cluster } from "./types";
import { age, inWords, signs } from "./words";

// idOf returns the id of a cell of the matrix. The empty key is the head.
export const idOf = (row: string, column: string) => `cell:${row}:${column}`;

interface HeadProps {
  column: Column;
  index: number;
  isActive: string;
  now: number;
}

export const Head = memo(function Head({ column, index, isActive, now }: HeadProps) {
  const common = { id: idOf("", column.key), scope: "col" as const, "aria-colindex": index, "data-row": "", "data-column": column.key };
  if (column.kind === "region") {
    const bad = column.clusters.filter((cluster) => cluster.ready !== "True").length;
    return (
      <th {...common} class={`head region${isActive}`} aria-expanded={column.open} title={`${column.region || "no region"}\n${column.open ? "Fold the region" : "Show the clusters of the region"}`}>
        <span class="line">
          <span aria-hidden="true">{column.open ? "▾" : "▸"}</span> <Name text={column.region || "no region"} />
        </span>
        <small>{column.clusters.length} clusters</small>
        <small class={bad ? "bad" : "good"}>{bad ? `✕ ${bad} not Ready` : "✓ all Ready"}</small>
      </th>
    );
  }
  const { cluster } = column;
  return (
    <th {...common} class={`head ${cluster.ready === "True" ? "" : "not-ready"}${isActive}`} title={headTitle(cluster)}>
      <Name text={cluster.name} />
      <small>{[cluster.region, cluster.version].filter(Boolean).join(" · ") || "\u00a0"}</small>
      <small class={cluster.ready === "True" ? "good" : "bad"}>{readiness(cluster, now)}</small>
    </th>
  );
});

function readiness(cluster: Cluster, now: number): string {
  const cordon = cluster.cordoned ? " · cordoned" : cluster.taints?.length ? " · tainted" : "";
  if (cluster.ready === "True") return `✓ Ready${cordon}`;
  return `✕ ${inWords(cluster.reason ?? "not a member")} ${age(cluster.since, now)}${cordon}`;
}

function headTitle(cluster: Cluster): string {
  const taints = cluster.taints?.length ? `\ntaints: ${cluster.taints.join(", ")}` : "";
  const cordon = cluster.cordoned ? "\ncordoned: gets no new applications" : "";
  return `${cluster.name}\n${cluster.ready === "True" ? "Ready" : `not Ready: ${cluster.reason ?? ""}`}${cordon}${taints}`;
}

// AppHead is the head of a row. Its strip shows the shares of the phases over all clusters. If it is
// narrow, the name has the first line for itself.
export const AppHead = memo(function AppHead({ row, isActive, isNarrow }: { row: Row; isActive: string; isNarrow: boolean }) {
  const { app } = row;
  const marks = [app.suspended && "suspended", app.deleting && "deleting"].filter(Boolean).join(", ");
  const stage = app.rollout?.stages?.find((s) => ["AwaitingApproval", "Progressing", "Soaking"].includes(s.phase));
  const shares = sharesOf(row.phases);
  const counted = ["ClustersFailed", "ClustersUnknown"].includes(app.reason ?? "") && countsInWords(shares);
  const state = marks || (app.phase === "Ready" && app.reason === "Ready" ? "" : counted || inWords(app.reason ?? app.phase));
  const count = (
    <span class="count">
      {app.ready}/{app.clusters}
      <span class="hidden"> clusters Ready, {app.phase}</span>
    </span>
  );
  return (
    <th id={idOf(row.key, "")} class={`app ${app.phase}${isActive}`} scope="row" aria-colindex={1} data-row={row.key} data-column="" title={`${row.key}\n${app.message ?? ""}`}>
      <span class="line">
        <span class="sign" aria-hidden="true">
          {signs[app.phase]}
        </span>
        <Name text={app.name} /> <span class="namespace">{app.namespace}</span>
        {!isNarrow && count}
      </span>
      <span class="line">
        <Bar done={app.upToDate} of={app.clusters} label={`${app.upToDate} of ${app.clusters} clusters run revision ${app.revision ?? 0}`}>
          {app.revision ? `r${app.revision} ` : ""}
          {!(isNarrow && app.revision && app.upToDate === app.clusters) && `${app.upToDate}/${app.clusters}`}
        </Bar>
        <span class="state">{stage && app.rollout?.phase === "Progressing" ? `${stage.name}: ${inWords(stage.phase)}` : state}</span>
        {isNarrow && count}
      </span>
      <Strip shares={shares} />
    </th>
  );
});

// Strip shows shares by their colours. The words beside it say the same.
export function Strip({ shares }: { shares: Share[] }) {
  const only = shares.length === 1 ? shares[0]!.phase : ""; // of most cells: a browser draws one colour faster
  return <span class={`strip ${only}`} aria-hidden="true" style={shares.length > 1 ? { background: barOf(shares) } : undefined} />;
}

// Bar shows a share, as a bar and in numbers.
export function Bar({ done, of, label, children }: { done: number; of: number; label: string; children: ComponentChildren }) {
  return (
    <span class="progress" role="img" aria-label={label} title={label}>
      <span class="bar">
        <span style={{ width: `${of ? Math.round((100 * done) / of) : 0}%` }} />
      </span>
      <span class="number" aria-hidden="true">
        {children}
      </span>
    </span>
  );
}
