import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ClusterCell, RegionCell } from "./cells";
import type { Target } from "./detail";
import { AppHead, Head, idOf } from "./heads";
import type { Column, Row } from "./model";
import { lineLength } from "./name";


// Sizes in pixels. style.css has the same ones. Only the cells that can be seen are in the
// document, so they must be known.
const columnWidth = 134;
const rowHeight = 46;
const lowHead = 62;
const nameHeight = 18; // of the second line of a name
const wideHead = 330;
const overscan = 3;

// headWidthOf returns the width of the heads of rows in a matrix that is so wide.
function headWidthOf(width: number): number {
  if (width < 500) return 190;
  return width < 900 ? 230 : wideHead;
}

// headHeightOf returns the height of the heads of columns. Long names of clusters have two lines.
function headHeightOf(columns: Column[]): number {
  const isLong = columns.some((column) => column.kind === "cluster" && column.cluster.name.length > lineLength);
  return isLong ? lowHead + nameHeight : lowHead;
}

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
  const headWidth = headWidthOf(view.width);
  const headHeight = useMemo(() => headHeightOf(columns), [columns]);
  const heads = { width: headWidth, height: headHeight };
  const [top, bottom] = range(view.top, view.height - headHeight, rowHeight, rows.length);
  const [left, right] = range(view.left, view.width - headWidth, columnWidth, columns.length);
  const visible = columns.slice(left, right);
  const before = left * columnWidth;
  const after = (columns.length - right) * columnWidth;

  const move = (row: number, column: number) => {
    const at = { row: clamp(row, -1, rows.length - 1), column: clamp(column, -1, columns.length - 1) };
    setActive({ row: rows[at.row]?.key ?? "", column: columns[at.column]?.key ?? "" });
    reveal(scroller.current!, at.row, at.column, heads);
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
  // What a link opens may be far away.
  const isEmpty = rows.length === 0;
  useEffect(() => {
    if (!target || isEmpty) return;
    const row = rows.findIndex(({ app }) => app.namespace === target.app?.namespace && app.name === target.app.name);
    const column = columns.findIndex((c) => c.kind === "cluster" && c.cluster.name === target.cluster);
    reveal(scroller.current!, row < 0 ? undefined : row, column < 0 ? undefined : column, heads);
  }, [target, isEmpty]);

  return (
    <div class="scroller" ref={scroller}>
      <table
        id="matrix"
        class={headWidth < wideHead ? "narrow" : ""}
        role="grid"
        aria-label="Applications by cluster. The arrow keys move, Enter opens."
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 1}
        aria-activedescendant={idOf(active.row, active.column)}
        tabIndex={0}
        style={{ width: `${headWidth + columns.length * columnWidth}px`, "--head": `${headHeight}px` }}
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
              <AppHead row={row} isActive={isActive(active, row.key, "")} isNarrow={headWidth < wideHead} />
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
const isActive = (active: Active, row: string, column: string) => (active.row === row && active.column === column ? " active" : "");

// Spacer stands in for the columns that cannot be seen.
function Spacer({ width }: { width: number }) {
  return width > 0 ? <td aria-hidden="true" class="spacer" /> : null;
}

// reveal scrolls so that a cell can be seen, and not in a direction that is undefined. The heads cover
// a part of the scrolling element, and can always be seen themselves.
function reveal(scroller: HTMLElement, row: number | undefined, column: number | undefined, heads: { width: number; height: number }) {
  if (row !== undefined) scroller.scrollTop = row < 0 ? 0 : nearest(scroller.scrollTop, row * rowHeight, rowHeight, scroller.clientHeight - heads.height);
  if (column !== undefined) scroller.scrollLeft = column < 0 ? 0 : nearest(scroller.scrollLeft, column * columnWidth, columnWidth, scroller.clientWidth - heads.width);
}

// nearest returns the nearest position of scrolling from which an item can be seen as a whole.
const nearest = (position: number, start: number, size: number, visible: number) => clamp(position, start + size - visible, start);
