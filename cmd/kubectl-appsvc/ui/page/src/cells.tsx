import { memo } from "preact/compat";
import { idOf, Strip } from "./heads";
import { fold, notPlacedInWords, type Row } from "./model";
import { countsInSigns, countsInWords, sharesOf } from "./shares";
import type { Cluster } from "./types";
import { secondLine, signs } from "./words";

interface CellProps {
  row: Row;
  cluster: Cluster;
  column: string;
  index: number;
  isActive: string;
  now: number;
}

// A cell is drawn again only if its text may differ: the ages of cells that are Ready do not show.
export const ClusterCell = memo(
  function ClusterCell({ row, cluster, column, index, isActive, now }: CellProps) {
    const common = { id: idOf(row.key, column), role: "gridcell" as const, "aria-colindex": index, "data-row": row.key, "data-column": column };
    const cell = row.cells.get(cluster.name);
    if (!cell) {
      const why = notPlacedInWords(row.app, cluster.name);
      return (
        <td {...common} class={`cell none${isActive}`} title={why.long}>
          <span class="box">
            <span class="number">not placed</span>
            {why.short && <span class="why">{why.short}</span>}
          </span>
        </td>
      );
    }
    const why = secondLine(cell, now);
    const isOld = cell.revision !== undefined && cell.revision !== row.app.revision && cell.phase !== "Removing";
    return (
      <td {...common} class={`cell ${cell.phase}${isActive}`} title={`${row.key} on ${cluster.name}: ${cell.phase}${why ? `, ${why}` : ""}`}>
        <span class="box">
          <span class="number">
            <span class="sign" aria-hidden="true">
              {signs[cell.phase]}
            </span>
            <span class="hidden">{cell.phase}, </span>
            {cell.ready}/{cell.wanted}
            {isOld && <span class="old"> r{cell.revision}</span>}
          </span>
          {why && <span class="why">{why}</span>}
        </span>
      </td>
    );
  },
  (before, after) => {
    const ages = before.row.cells.get(before.cluster.name)?.phase === "Unknown";
    return before.row === after.row && before.cluster === after.cluster && before.index === after.index && before.isActive === after.isActive && (!ages || before.now === after.now);
  },
);

interface RegionProps {
  row: Row;
  clusters: Cluster[];
  column: string;
  index: number;
  isActive: string;
}

// RegionCell shows on how many clusters of a region an application is in each phase.
export const RegionCell = memo(function RegionCell({ row, clusters, column, index, isActive }: RegionProps) {
  const counts = fold(row, clusters);
  const common = { id: idOf(row.key, column), role: "gridcell" as const, "aria-colindex": index, "data-row": row.key, "data-column": column };
  if (counts.size === 0) {
    return (
      <td {...common} class={`cell none${isActive}`}>
        <span class="box">
          <span class="number">not placed</span>
        </span>
      </td>
    );
  }
  const shares = sharesOf(counts);
  const ready = counts.get("Ready") ?? 0;
  const placed = shares.reduce((total, { count }) => total + count, 0);
  const unready = countsInWords(shares);
  const words = `${ready} of ${placed} clusters Ready${unready && `, ${unready}`}`;
  return (
    <td {...common} class={`cell shares${isActive}`} title={words} aria-label={words}>
      <span class="box">
        <span class="number">
          {!unready && "✓ "}
          {ready}/{placed}
        </span>
        {unready && (
          <span class="counts">
            {countsInSigns(shares).map(({ phase, text }) => (
              <span key={phase} class={phase}>
                {text}
              </span>
            ))}
          </span>
        )}
        <Strip shares={shares} />
      </span>
    </td>
  );
});
