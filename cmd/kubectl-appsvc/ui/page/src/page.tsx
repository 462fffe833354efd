import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Banner } from "./banner";
import { DetailPanel, type Target } from "./detail";
import { Matrix } from "./matrix";
import { allClusters, announce, apply, columnsOf, emptyFleet, filterRows, needsOf, phaseCounts, regionsOf, totalOf, type Fleet } from "./model";
import { follow, type Connection } from "./server";
import { Toolbar } from "./toolbar";
import type { Cluster } from "./types";
import { useView } from "./view";

const clockInterval = 1_000;
const announceInterval = 3_000;

// useNow returns the time, again each second, because the page shows ages.
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), clockInterval);
    return () => clearInterval(timer);
  }, []);
  return now;
}

interface Live {
  fleet: Fleet;
  connection: Connection;
  // When the last news came.
  heard: number;
}

// useFleet returns the state that the server sends.
function useFleet(token: string): Live {
  const [live, setLive] = useState<Live>({ fleet: emptyFleet, connection: "connecting", heard: Date.now() });
  useEffect(() => {
    const controller = new AbortController();
    void follow(
      token,
      controller.signal,
      (change) => setLive((last) => ({ ...last, fleet: apply(last.fleet, change), heard: Date.now() })),
      (connection) => setLive((last) => (last.connection === connection ? last : { ...last, connection })),
    );
    return () => controller.abort();
  }, [token]);
  return live;
}

// useClusters returns all clusters, and the same list until one of them changes: a change of an
// application must not cause that each cell is drawn again.
function useClusters(fleet: Fleet): Cluster[] {
  const previous = useRef<Cluster[]>([]);
  return useMemo(() => (previous.current = allClusters(fleet, previous.current)), [fleet.rows, fleet.clusters]);
}

// useAnnouncement returns what changed in the last seconds, in words.
function useAnnouncement(fleet: Fleet): string {
  const [text, setText] = useState("");
  const said = useRef(fleet);
  const latest = useRef(fleet);
  latest.current = fleet;
  if (said.current === emptyFleet) said.current = fleet; // the first state is no change
  useEffect(() => {
    const timer = setInterval(() => {
      if (said.current === latest.current) return;
      const words = announce(said.current, latest.current);
      said.current = latest.current;
      if (words) setText(words);
    }, announceInterval);
    return () => clearInterval(timer);
  }, []);
  return text;
}

export function Page({ token }: { token: string }) {
  const { fleet, connection, heard } = useFleet(token);
  const now = useNow();
  const [{ filter, open, target }, change] = useView();
  const announcement = useAnnouncement(fleet);
  const rows = useMemo(() => filterRows(fleet, filter), [fleet.rows, filter]);
  const clusters = useClusters(fleet);
  const regions = useMemo(() => regionsOf(clusters, filter), [clusters, filter.cluster]);
  const columns = useMemo(() => columnsOf(regions, filter.order, needsOf(rows, clusters), open), [regions, filter.order, rows, open]);
  const counts = useMemo(() => phaseCounts(fleet.rows.values()), [fleet.rows]);
  const total = useMemo(() => totalOf(rows), [rows]);
  const toggle = useCallback((region: string) => change({ open: toggled(open, region) }), [open]);
  const show = useCallback((next: Target) => change({ target: next }), []);
  const close = useCallback(() => change({ target: undefined }), []);
  useTitle(target);

  if (connection === "refused") return <Refused />;
  const isOpen = target !== undefined && fleet !== emptyFleet;
  const isStale = connection === "lost" || Boolean(fleet.hub.problem || fleet.hub.operatorProblem);
  return (
    <div class={isOpen ? "page with-detail" : "page"}>
      <Toolbar fleet={fleet} filter={filter} counts={counts} total={total} shown={rows.length} onFilter={(next, isTyped) => change({ filter: next }, isTyped)} connection={connection} heard={heard} />
      <Banner hub={fleet.hub} connection={connection} heard={heard} now={now} />
      <main class={isStale ? "stale" : ""}>
        <Matrix rows={rows} columns={columns} now={now} onOpen={show} onToggle={toggle} target={target} />
        <Empty fleet={fleet} shown={rows.length} connection={connection} />
      </main>
      {isOpen && <DetailPanel token={token} fleet={fleet} target={target} now={now} onClose={close} />}
      <p class="hidden" role="status" aria-live="polite">
        {announcement}
      </p>
    </div>
  );
}

// useTitle names what is open in the title of the tab, and gives the focus back when the panel closes.
function useTitle(target: Target | undefined) {
  const wasOpen = useRef(false);
  useEffect(() => {
    const { app, cluster } = target ?? {};
    const words = [app && `${app.namespace}/${app.name}`, cluster].filter(Boolean).join(" on ");
    document.title = words ? `${words} · Fleet` : "Fleet";
    if (!target && wasOpen.current) document.getElementById("matrix")?.focus();
    wasOpen.current = target !== undefined;
  }, [target]);
}

function toggled(set: ReadonlySet<string>, value: string): ReadonlySet<string> {
  const next = new Set(set);
  if (!next.delete(value)) next.add(value);
  return next;
}

function Empty({ fleet, shown, connection }: { fleet: Fleet; shown: number; connection: Connection }) {
  if (shown > 0) return null;
  const isLoading = connection === "connecting" || fleet.hub.kinds.some((kind) => !kind.synced && !kind.problem);
  const words = isLoading ? "Reading the hub…" : fleet.rows.size === 0 ? "There is no AppService." : "No application matches the filters.";
  return <p class="empty">{words}</p>;
}

function Refused() {
  return (
    <div class="refused" role="alert">
      <h1>This page needs its token</h1>
      <p>
        Open the URL that <code>kubectl appsvc ui</code> printed. Each start of the command has another token.
      </p>
      {location.hash && (
        <p>
          To see what this link shows, add <code>{`&${location.hash.slice(1)}`}</code> to that URL.
        </p>
      )}
    </div>
  );
}
