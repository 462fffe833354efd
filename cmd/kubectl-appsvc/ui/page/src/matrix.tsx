import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Target } from "./detail";
import { fold, notPlacedInWords, type Column, type Row } from "./model";
import type { Cluster } from "./types";
import { age, inWords, secondLine, signs } from "./words";

// Sizes in pixels. style.css has the same ones. Only the cells that can be seen are in the
// document, so they must be known.
const columnWidth = 134;
const rowHeight = 46;
const headHeight = 62;
const wideHead = 330;
const narrowHead = 230;
const narrowBelow = 900;
const overscan = 3;

interface Props {
  rows: Row[];
  columns: Column[];
  now: number;
  target: Target | undefined;
  onOpen: (target: Target) => void;
  onToggle: (region: string) => void;
}

// Active is the cell that has the keyboard focus, by its keys, so that it stays the same cell when
// the order changes. The empty key is the head.
interface Active {
  row: string;
  column: string;
}

interface View {
  top: number;
  left: number;
  width: number;
  height: number;
}

// useView returns which part of a scrolling element can be seen.
function useView(element: { current: HTMLDivElement | null }): View {
  const [view, setView] = useState<View>({ top: 0, left: 0, width: 1280, height: 800 });
  useLayoutEffect(() => {
    const scroller = element.current!;
    let frame = 0;
    const measure = () => {
      frame = 0;
      setView({ top: scroller.scrollTop, left: scroller.scrollLeft, width: scroller.clientWidth, height: scroller.clientHeight });
    };
    const later = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    scroller.addEventListener("scroll", later, { passive: true });
    const observer = new ResizeObserver(later);
    observer.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", later);
      observer.disconnect();
      cancelAnimationFrame(frame);
    };
  }, []);
  return view;
}

// range returns the first and the last index, plus one, of what can be seen of a list.
function range(start: number, length: number, size: number, count: number): [number, number] {
  const first = Math.max(0, Math.min(count, Math.floor(start / size) - overscan));
  return [first, Math.min(count, Math.ceil((start + length) / size) + overscan)];
}

// Matrix shows applications × clusters, as a grid for the keyboard: the arrow keys move, Enter
// opens.
export function Matrix({ rows, columns, now, target, onOpen, onToggle }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const view = useView(scroller);
  const [active, setActive] = useState<Active>({ row: "", column: "" });
  const headWidth = view.width < narrowBelow ? narrowHead : wideHead;
  const [top, bottom] = range(view.top, view.height - headHeight, rowHeight, rows.length);
  const [left, right] = range(view.left, view.width - headWidth, columnWidth, columns.length);
  const visible = columns.slice(left, right);
  const before = left * columnWidth;
  const after = (columns.length - right) * columnWidth;

  const move = (row: number, column: number) => {
    const at = { row: clamp(row, -1, rows.length - 1), column: clamp(column, -1, columns.length - 1) };
    setActive({ row: rows[at.row]?.key ?? "", column: columns[at.column]?.key ?? "" });
    reveal(scroller.current!, at.row, at.column, headWidth);
  };
  const activate = (row: Row | undefined, column: Column | undefined) => {
    if (column?.kind === "region") onToggle(column.region);
    else if (row) onOpen({ app: { namespace: row.app.namespace, name: row.app.name }, cluster: column?.cluster.name });
    else if (column) onOpen({ cluster: column.cluster.name });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows.findIndex((r) => r.key === active.row);
    const column = columns.findIndex((c) => c.key === active.column);
    const page = Math.max(1, Math.floor((view.height - headHeight) / rowHeight) - 1);
    const isFar = event.ctrlKey || event.metaKey;
    const keys: Record<string, () => void> = {
      ArrowUp: () => move(row - 1, column),
      ArrowDown: () => move(row + 1, column),
      ArrowLeft: () => move(row, column - 1),
      ArrowRight: () => move(row, column + 1),
      PageUp: () => move(row - page, column),
      PageDown: () => move(row + page, column),
      Home: () => move(isFar ? -1 : row, -1),
      End: () => move(isFar ? rows.length - 1 : row, columns.length - 1),
      Enter: () => activate(rows[row], columns[column]),
      " ": () => activate(rows[row], columns[column]),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const onClick = (event: MouseEvent) => {
    const cell = (event.target as Element).closest<HTMLElement>("[data-column]");
    if (!cell) return;
    const key = { row: cell.dataset.row!, column: cell.dataset.column! };
    setActive(key);
    activate(
      rows.find((row) => row.key === key.row),
      columns.find((column) => column.key === key.column),
    );
  };
  // A column may have disappeared with its region.
  useEffect(() => {
    if (active.column && !columns.some((column) => column.key === active.column)) setActive({ ...active, column: "" });
  }, [columns]);

  return (
    <div class="scroller" ref={scroller}>
      <table
        id="matrix"
        role="grid"
        aria-label="Applications by cluster. The arrow keys move, Enter opens."
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 1}
        aria-activedescendant={idOf(active.row, active.column)}
        tabIndex={0}
        style={{ width: `${headWidth + columns.length * columnWidth}px` }}
        onKeyDown={onKeyDown}
        onClick={onClick}
      >
        <colgroup>
          <col style={{ width: `${headWidth}px` }} />
          {before > 0 && <col style={{ width: `${before}px` }} />}
          {visible.map((column) => (
            <col key={column.key} style={{ width: `${columnWidth}px` }} />
          ))}
          {after > 0 && <col style={{ width: `${after}px` }} />}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            <th id={idOf("", "")} class={`corner${isActive(active, "", "")}`} scope="col" aria-colindex={1}>
              Application
            </th>
            <Spacer width={before} />
            {visible.map((column, i) => (
              <Head key={column.key} column={column} index={left + i + 2} isActive={isActive(active, "", column.key)} now={column.kind === "cluster" ? now : 0} />
            ))}
            <Spacer width={after} />
          </tr>
        </thead>
        <tbody>
          {top > 0 && <tr aria-hidden="true" style={{ height: `${top * rowHeight}px` }} />}
          {rows.slice(top, bottom).map((row, i) => (
            <tr key={row.key} aria-rowindex={top + i + 2} class={target?.app && row.key === `${target.app.namespace}/${target.app.name}` ? "open" : ""}>
              <AppHead row={row} isActive={isActive(active, row.key, "")} />
              <Spacer width={before} />
              {visible.map((column, j) =>
                column.kind === "cluster" ? (
                  <ClusterCell key={column.key} row={row} cluster={column.cluster} column={column.key} index={left + j + 2} isActive={isActive(active, row.key, column.key)} now={now} />
                ) : (
                  <RegionCell key={column.key} row={row} column={column.key} clusters={column.clusters} index={left + j + 2} isActive={isActive(active, row.key, column.key)} />
                ),
              )}
              <Spacer width={after} />
            </tr>
          ))}
          {bottom < rows.length && <tr aria-hidden="true" style={{ height: `${(rows.length - bottom) * rowHeight}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

const clamp = (value: number, low: number, high: number) => Math.max(low, Math.min(high, value));
const idOf = (row: string, column: string) => `cell:${row}:${column}`;
const isActive = (active: Active, row: string, column: string) => (active.row === row && active.column === column ? " active" : "");

// Spacer stands in for the columns that cannot be seen.
function Spacer({ width }: { width: number }) {
  return width > 0 ? <td aria-hidden="true" class="spacer" /> : null;
}

// reveal scrolls so that a cell can be seen. The heads cover a part of the scrolling element, and
// can always be seen themselves.
function reveal(scroller: HTMLElement, row: number, column: number, headWidth: number) {
  if (row < 0) {
    scroller.scrollTop = 0;
  } else {
    const start = row * rowHeight;
    const end = start + rowHeight - (scroller.clientHeight - headHeight);
    scroller.scrollTop = clamp(scroller.scrollTop, end, start);
  }
  if (column < 0) {
    scroller.scrollLeft = 0;
  } else {
    const start = column * columnWidth;
    const end = start + columnWidth - (scroller.clientWidth - headWidth);
    scroller.scrollLeft = clamp(scroller.scrollLeft, end, start);
  }
}

interface HeadProps {
  column: Column;
  index: number;
  isActive: string;
  now: number;
}

const Head = memo(function Head({ column, index, isActive, now }: HeadProps) {
  const common = { id: idOf("", column.key), scope: "col" as const, "aria-colindex": index, "data-row": "", "data-column": column.key };
  if (column.kind === "region") {
    const bad = column.clusters.filter((cluster) => cluster.ready !== "True").length;
    return (
      <th {...common} class={`head region${isActive}`} aria-expanded={column.open} title={column.open ? "Fold the region" : "Show the clusters of the region"}>
        <b>
          <span aria-hidden="true">{column.open ? "▾" : "▸"}</span> {column.region || "no region"}
        </b>
        <small>{column.clusters.length} clusters</small>
        <small class={bad ? "bad" : "good"}>{bad ? `✕ ${bad} not Ready` : "✓ all Ready"}</small>
      </th>
    );
  }
  const { cluster } = column;
  return (
    <th {...common} class={`head ${cluster.ready === "True" ? "" : "not-ready"}${isActive}`} title={headTitle(cluster)}>
      <b>{cluster.name}</b>
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

const AppHead = memo(function AppHead({ row, isActive }: { row: Row; isActive: string }) {
  const { app } = row;
  const marks = [app.suspended && "suspended", app.deleting && "deleting"].filter(Boolean).join(", ");
  const stage = app.rollout?.stages?.find((s) => ["AwaitingApproval", "Progressing", "Soaking"].includes(s.phase));
  const state = marks || (app.phase === "Ready" && app.reason === "Ready" ? "" : inWords(app.reason ?? app.phase));
  return (
    <th id={idOf(row.key, "")} class={`app ${app.phase}${isActive}`} scope="row" aria-colindex={1} data-row={row.key} data-column="" title={app.message}>
      <span class="line">
        <span class="sign" aria-hidden="true">
          {signs[app.phase]}
        </span>
        <b>{app.name}</b> <span class="namespace">{app.namespace}</span>
        <span class="count">
          {app.ready}/{app.clusters}
          <span class="hidden"> clusters Ready, {app.phase}</span>
        </span>
      </span>
      <span class="line">
        <Bar done={app.upToDate} of={app.clusters} label={`${app.upToDate} of ${app.clusters} clusters run revision ${app.revision ?? 0}`}>
          {app.revision ? `r${app.revision} ` : ""}
          {app.upToDate}/{app.clusters}
        </Bar>
        <span class="state">{stage && app.rollout?.phase === "Progressing" ? `${stage.name}: ${inWords(stage.phase)}` : state}</span>
      </span>
    </th>
  );
});

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

interface CellProps {
  row: Row;
  cluster: Cluster;
  column: string;
  index: number;
  isActive: string;
  now: number;
}

// A cell is drawn again only if its text may differ: the ages of cells that are Ready do not show.
const ClusterCell = memo(
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

const RegionCell = memo(function RegionCell({ row, clusters, column, index, isActive }: RegionProps) {
  const folded = fold(row, clusters);
  const common = { id: idOf(row.key, column), role: "gridcell" as const, "aria-colindex": index, "data-row": row.key, "data-column": column };
  if (!folded.phase) {
    return (
      <td {...common} class={`cell none${isActive}`}>
        <span class="box">
          <span class="number">not placed</span>
        </span>
      </td>
    );
  }
  const bad = folded.bad.map(([phase, count]) => `${count} ${phase}`).join(", ");
  return (
    <td {...common} class={`cell ${folded.phase}${isActive}`} title={`${folded.ready} of ${folded.placed} clusters Ready${bad && `, ${bad}`}`}>
      <span class="box">
        <span class="number">
          <span class="sign" aria-hidden="true">
            {signs[folded.phase]}
          </span>
          <span class="hidden">{folded.phase}, clusters Ready: </span>
          {folded.ready}/{folded.placed}
        </span>
        {bad && <span class="why">{bad}</span>}
      </span>
    </td>
  );
});
