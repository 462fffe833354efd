// What the page shows, as the fragment of its URL, so that it can be sent as a link. A fragment is sent
// to no server. The token is never in it. Everything here is pure.
import type { Target } from "./detail";
import { noFilter, type Filter } from "./model";
import { worstFirst } from "./words";

// View is what a user has chosen to see.
export interface View {
  filter: Filter;
  // The regions that are unfolded.
  open: ReadonlySet<string>;
  target?: Target;
}

const longest = 253; // of a name in Kubernetes
const isName = (name: string | undefined) => name !== undefined && name.length <= longest && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name);

// viewOf returns the view of a fragment. Values that it cannot have are ignored.
export function viewOf(fragment: string): View {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = (key: string) => {
    const value = values.get(key) ?? "";
    return value.length <= longest ? value : "";
  };
  const one = <T extends string>(key: string, known: readonly T[], otherwise: T) => known.find((value) => value === values.get(key)) ?? otherwise;
  const namespace = text("namespace");
  const filter: Filter = {
    namespace: isName(namespace) ? namespace : "",
    phase: one("phase", ["", ...worstFirst], ""),
    text: text("text"),
    label: text("labels"),
    cluster: text("clusters"),
    order: one("order", ["worst", "name"], "worst"),
  };
  return { filter, open: new Set(values.getAll("region").filter((region) => region.length <= longest)), target: targetOf(values) };
}

function targetOf(values: URLSearchParams): Target | undefined {
  const cluster = values.get("cluster") ?? undefined;
  if (cluster !== undefined && !isName(cluster)) return undefined;
  if (!values.has("app")) return cluster === undefined ? undefined : { cluster };
  const [namespace, name, ...more] = values.get("app")!.split("/");
  if (!isName(namespace) || !isName(name) || more.length > 0) return undefined;
  const app = { namespace: namespace!, name: name! };
  return cluster === undefined ? { app } : { app, cluster };
}

// fragmentOf returns the fragment of a view, or "" if nothing is chosen. What is as it is at first is
// left out.
export function fragmentOf({ filter, open, target }: View): string {
  const values = new URLSearchParams();
  const set = (key: string, value: string, first: string) => value !== first && values.set(key, value);
  set("namespace", filter.namespace, noFilter.namespace);
  set("phase", filter.phase, noFilter.phase);
  set("text", filter.text, noFilter.text);
  set("labels", filter.label, noFilter.label);
  set("clusters", filter.cluster, noFilter.cluster);
  set("order", filter.order, noFilter.order);
  for (const region of [...open].sort()) values.append("region", region);
  if (target?.app) values.set("app", `${target.app.namespace}/${target.app.name}`);
  if (target?.cluster !== undefined) values.set("cluster", target.cluster);
  const fragment = values.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  return fragment && `#${fragment}`;
}

// renew returns the view of a fragment, with the parts of the last view that are the same, so that
// nothing is computed or read again for them.
export function renew(last: View, fragment: string): View {
  const next = viewOf(fragment);
  const keep = <K extends keyof View>(key: K) => (fragmentOf({ ...last, [key]: next[key] }) === fragmentOf(last) ? last[key] : next[key]);
  return { filter: keep("filter"), open: keep("open"), target: keep("target") };
}
