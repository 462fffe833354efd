import { useState } from "preact/hooks";
import { clock } from "./banner";
import { Strip } from "./heads";
import { noFilter, type Filter, type Fleet } from "./model";
import type { Connection } from "./server";
import { sharesOf, type Counts } from "./shares";
import type { Hub } from "./types";
import { signs, worstFirst } from "./words";

interface Props {
  fleet: Fleet;
  filter: Filter;
  // How many applications have each phase, and on how many clusters.
  counts: Counts;
  total: Counts;
  shown: number;
  onFilter: (filter: Filter, isTyped: boolean) => void;
  connection: Connection;
  heard: number;
}

// Toolbar has the filters, and what the fleet is as a whole. In a narrow window, the filters are folded.
export function Toolbar({ fleet, filter, counts, total, shown, onFilter, connection, heard }: Props) {
  const [isUnfolded, setUnfolded] = useState(false);
  const choose = (part: Partial<Filter>) => onFilter({ ...filter, ...part }, false);
  const type = (part: Partial<Filter>) => onFilter({ ...filter, ...part }, true);
  const namespaces = namespacesOf(fleet, filter);
  const chosen = Object.keys(noFilter).filter((key) => key !== "phase" && filter[key as keyof Filter] !== noFilter[key as keyof Filter]).length;
  const clusters = [...fleet.clusters.values()];
  const notReady = clusters.filter((cluster) => cluster.ready !== "True").length;
  return (
    <header class="toolbar">
      <div class="title">
        <h1>Fleet{fleet.hub.context && <span class="context"> {fleet.hub.context}</span>}</h1>
        <p class="totals">
          <b>{fleet.rows.size}</b> applications{shown !== fleet.rows.size && `, ${shown} shown`} · <b>{clusters.length}</b> clusters
          {notReady > 0 && <span class="bad">, {notReady} not Ready</span>}
        </p>
        <Liveness hub={fleet.hub} connection={connection} heard={heard} />
      </div>
      <form class="filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <div class="phases" role="group" aria-label="Phase">
          {worstFirst.map((phase) => (
            <button
              type="button"
              key={phase}
              class={`chip ${phase}`}
              aria-pressed={filter.phase === phase}
              disabled={!counts.get(phase) && filter.phase !== phase}
              title={`Show the applications that are ${phase} on ${phase === "Ready" ? "all clusters" : "any cluster"}`}
              onClick={() => choose({ phase: filter.phase === phase ? "" : phase })}
            >
              <span aria-hidden="true">{signs[phase]}</span> <span class="word">{phase}</span> <b>{counts.get(phase) ?? 0}</b>
            </button>
          ))}
          <button type="button" class="fold" aria-expanded={isUnfolded} aria-controls="inputs" onClick={() => setUnfolded(!isUnfolded)}>
            {isUnfolded ? "▾" : "▸"} Filters{chosen > 0 && `, ${chosen} set`}
          </button>
        </div>
        <div id="inputs" class={isUnfolded ? "inputs unfolded" : "inputs"}>
          <label>
            <span>Namespace</span>
            <select name="namespace" value={filter.namespace} onChange={(event) => choose({ namespace: event.currentTarget.value })}>
              <option value="">all</option>
              {namespaces.map((namespace) => (
                <option key={namespace} value={namespace}>
                  {namespace}
                </option>
              ))}
            </select>
          </label>
          <Text name="text" label="Text" placeholder="name or reason" value={filter.text} onInput={(text) => type({ text })} />
          <Text name="label" label="Labels" placeholder="team=shop" value={filter.label} onInput={(label) => type({ label })} />
          <Text name="cluster" label="Clusters" placeholder="name, region=eu" value={filter.cluster} onInput={(cluster) => type({ cluster })} />
          <label>
            <span>Order</span>
            <select name="order" value={filter.order} onChange={(event) => choose({ order: event.currentTarget.value as Filter["order"] })}>
              <option value="worst">worst first</option>
              <option value="name">by name</option>
            </select>
          </label>
        </div>
      </form>
      <Strip shares={sharesOf(total, 0.5)} />
    </header>
  );
}

// namespacesOf returns the namespaces to choose from. A link may have chosen one without applications.
function namespacesOf(fleet: Fleet, filter: Filter): string[] {
  const namespaces = new Set([...fleet.rows.values()].map((row) => row.app.namespace));
  if (filter.namespace) namespaces.add(filter.namespace);
  return [...namespaces].sort();
}

// Liveness says whether what the page shows is up to date. Its dot is green only if the server, the hub
// and the operator are all heard.
function Liveness({ hub, connection, heard }: { hub: Hub; connection: Connection; heard: number }) {
  let state: string = connection;
  let words = connection === "connecting" ? "connecting" : "not live";
  if (connection === "open") {
    words = `live, ${clock(new Date(heard))}`;
    if (hub.operatorProblem) [state, words] = ["silent", "the operator is silent"];
    if (hub.problem) [state, words] = ["silent", "the hub is silent"];
  }
  return (
    <p class={`live ${state}`}>
      <span class="dot" aria-hidden="true" />
      {words}
    </p>
  );
}

interface TextProps {
  name: string;
  label: string;
  placeholder: string;
  value: string;
  onInput: (value: string) => void;
}

function Text({ name, label, placeholder, value, onInput }: TextProps) {
  return (
    <label>
      <span>{label}</span>
      <input type="search" name={name} autocomplete="off" spellcheck={false} placeholder={placeholder} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}
