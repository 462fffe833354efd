import { clock } from "./banner";
import type { Filter, Fleet } from "./model";
import type { Connection } from "./server";
import type { Phase } from "./types";
import { signs, worstFirst } from "./words";

interface Props {
  fleet: Fleet;
  filter: Filter;
  counts: Map<Phase, number>;
  shown: number;
  onFilter: (filter: Filter) => void;
  connection: Connection;
  heard: number;
}

// Toolbar has the filters, and what the fleet is as a whole.
export function Toolbar({ fleet, filter, counts, shown, onFilter, connection, heard }: Props) {
  const set = (part: Partial<Filter>) => onFilter({ ...filter, ...part });
  const namespaces = [...new Set([...fleet.rows.values()].map((row) => row.app.namespace))].sort();
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
        <p class={`live ${connection}`}>
          <span class="dot" aria-hidden="true" />
          {connection === "open" ? `live, ${clock(new Date(heard))}` : connection === "connecting" ? "connecting" : "not live"}
        </p>
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
              onClick={() => set({ phase: filter.phase === phase ? "" : phase })}
            >
              <span aria-hidden="true">{signs[phase]}</span> {phase} <b>{counts.get(phase) ?? 0}</b>
            </button>
          ))}
        </div>
        <div class="inputs">
          <label>
            <span>Namespace</span>
            <select name="namespace" value={filter.namespace} onChange={(event) => set({ namespace: event.currentTarget.value })}>
              <option value="">all</option>
              {namespaces.map((namespace) => (
                <option key={namespace} value={namespace}>
                  {namespace}
                </option>
              ))}
            </select>
          </label>
          <Text name="text" label="Text" placeholder="name or reason" value={filter.text} onInput={(text) => set({ text })} />
          <Text name="label" label="Labels" placeholder="team=shop" value={filter.label} onInput={(label) => set({ label })} />
          <Text name="cluster" label="Clusters" placeholder="name, region=eu" value={filter.cluster} onInput={(cluster) => set({ cluster })} />
          <label>
            <span>Order</span>
            <select name="order" value={filter.order} onChange={(event) => set({ order: event.currentTarget.value as Filter["order"] })}>
              <option value="worst">worst first</option>
              <option value="name">by name</option>
            </select>
          </label>
        </div>
      </form>
    </header>
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
