import { expect, test } from "vitest";
import { allClusters, announce, apply, columnsOf, emptyFleet, filterRows, fold, joinParts, matchesLabels, needsOf, noFilter, notPlacedInWords, phaseCounts, regionsOf, rowOf, totalOf, whyNotPlaced, type Filter, type Fleet } from "./model";
import type { App, Cell, Change, Cluster, Hub, Phase } from "./types";

const hub: Hub = { lastAnswer: "2026-05-04T12:00:00Z", kinds: [] };

function cell(cluster: string, phase: Phase = "Ready"): Cell {
  return { cluster, phase, ready: 3, wanted: 3 };
}

function app(name: string, phase: Phase = "Ready", cells: Cell[] = [], more: Partial<App> = {}): App {
  return { namespace: "shop", name, phase, clusters: cells.length, ready: 0, upToDate: 0, pods: 0, readyPods: 0, cells, ...more };
}

function cluster(name: string, region = "", ready: Cluster["ready"] = "True"): Cluster {
  return { name, region, ready };
}

function fleetOf(apps: App[], clusters: Cluster[] = []): Fleet {
  return apply(emptyFleet, { full: true, hub, apps, clusters });
}

// shownColumns returns the keys of the columns that a page shows.
function shownColumns(fleet: Fleet, filter: Partial<Filter> = {}, open: string[] = []): string[] {
  const all = { ...noFilter, ...filter };
  const clusters = allClusters(fleet);
  return columnsOf(regionsOf(clusters, all), all.order, needsOf(filterRows(fleet, all), clusters), new Set(open)).map((column) => column.key);
}

test("a change replaces what it has, and keeps the rest", () => {
  const before = fleetOf([app("web"), app("cart")], [cluster("east"), cluster("west")]);
  const after = apply(before, { hub, apps: [app("web", "Failed")], gone: ["cluster/west", "app/shop/cart"] });
  expect([...after.rows.keys()]).toEqual(["shop/web"]);
  expect(after.rows.get("shop/web")?.app.phase).toBe("Failed");
  expect([...after.clusters.keys()]).toEqual(["east"]);
  expect(before.rows.size).toBe(2);
});

test("a change of the hub alone keeps the rows, so that nothing is drawn again", () => {
  const before = fleetOf([app("web")]);
  const after = apply(before, { hub: { ...hub, problem: "lost" } });
  expect(after.rows).toBe(before.rows);
  expect(after.hub.problem).toBe("lost");
});

test("a full change forgets what it does not have", () => {
  expect(apply(fleetOf([app("web")], [cluster("east")]), { full: true, hub }).rows.size).toBe(0);
});

test("worst first: by the number of failed clusters, then of unknown ones, and so on, then by name", () => {
  const fleet = fleetOf([
    app("ready"),
    app("one-unknown", "Unknown", [cell("a", "Unknown"), cell("b")]),
    app("two-unknown", "Unknown", [cell("a", "Unknown"), cell("b", "Unknown")]),
    app("failed", "Failed", [cell("a", "Failed")]),
    app("no-cluster-fits", "Failed"),
    app("failed-twice", "Failed", [cell("a", "Failed"), cell("b", "Failed")]),
    app("failed-and-unknown", "Failed", [cell("a", "Failed"), cell("b", "Unknown")]),
    app("unknown-and-rolling", "Unknown", [cell("a", "Unknown"), cell("b", "Progressing")]),
    app("also-ready"),
  ]);
  const names = (order: "worst" | "name") => filterRows(fleet, { ...noFilter, order }).map((row) => row.app.name);
  expect(names("worst")).toEqual(["failed-twice", "failed-and-unknown", "failed", "no-cluster-fits", "two-unknown", "unknown-and-rolling", "one-unknown", "also-ready", "ready"]);
  expect(names("name").slice(0, 3)).toEqual(["also-ready", "failed", "failed-and-unknown"]);
});

test("filters by namespace, phase, label and text, all of them together", () => {
  const fleet = fleetOf([
    app("web", "Failed", [cell("east", "Failed"), cell("south", "Unknown")], { labels: { team: "shop" }, message: "image not found" }),
    app("cart", "Ready", [cell("west")], { labels: { team: "shop" } }),
    app("mail", "Ready", [cell("east")], { namespace: "ops" }),
  ]);
  const shown = (filter: Partial<typeof noFilter>) => filterRows(fleet, { ...noFilter, order: "name", ...filter }).map((row) => row.app.name);
  expect(shown({ namespace: "ops" })).toEqual(["mail"]);
  expect(shown({ phase: "Unknown" })).toEqual(["web"]);
  expect(shown({ phase: "Ready" })).toEqual(["mail", "cart"]);
  expect(shown({ label: "team=shop" })).toEqual(["cart", "web"]);
  expect(shown({ text: "NOT FOUND" })).toEqual(["web"]);
  expect(shown({ text: "west" })).toEqual(["cart"]);
  expect(shown({ text: "shop/ca" })).toEqual(["cart"]);
  expect(shown({ label: "team=shop", phase: "Ready" })).toEqual(["cart"]);
  expect(Object.fromEntries(phaseCounts(fleet.rows.values()))).toEqual({ Failed: 1, Unknown: 1, Ready: 2 });
});

test.each([
  ["", true],
  ["team", true],
  ["team=shop", true],
  ["team==shop", true],
  ["team = shop , tier", true],
  ["team=ops", false],
  ["team!=ops", true],
  ["team!=shop", false],
  ["!zone", true],
  ["!team", false],
  ["team=shop,zone", false],
])("labels match %j: %j", (terms, want) => {
  expect(matchesLabels({ team: "shop", tier: "gold" }, terms)).toBe(want);
});

test("up to 50 clusters are columns, and more are folded by region", () => {
  const clusters = (count: number) => Array.from({ length: count }, (_, i) => cluster(`c${String(i).padStart(3, "0")}`, i % 2 ? "us" : "eu"));
  const keys = (count: number, open: string[] = []) => shownColumns(fleetOf([], clusters(count)), {}, open);
  expect(keys(50)).toHaveLength(50);
  expect(keys(51)).toEqual(["r/eu", "r/us"]);
  expect(keys(52, ["us"]).slice(0, 3)).toEqual(["r/eu", "r/us", "c/c001"]);
  expect(keys(52, ["us"])).toHaveLength(28);
});

test("worst first: regions and clusters that are not Ready come first", () => {
  const fleet = fleetOf([], [cluster("a", "ap"), cluster("b", "eu"), cluster("d", "eu", "False"), cluster("c", "us")]);
  expect(shownColumns(fleet, { order: "worst" })).toEqual(["c/d", "c/b", "c/a", "c/c"]);
  expect(shownColumns(fleet, { order: "name" })).toEqual(["c/a", "c/b", "c/d", "c/c"]);
});

test("worst first: regions and clusters by the number of failed applications, then of clusters that are not Ready", () => {
  const fleet = fleetOf(
    [app("web", "Failed", [cell("e", "Failed"), cell("d", "Failed"), cell("c", "Failed"), cell("a", "Unknown")]), app("cart", "Failed", [cell("d", "Failed")])],
    [cluster("a", "ap", "False"), cluster("b", "ap", "False"), cluster("c", "eu", "False"), cluster("d", "us"), cluster("e", "us"), cluster("f", "us"), cluster("g", "af")],
  );
  expect(shownColumns(fleet)).toEqual(["c/d", "c/e", "c/f", "c/c", "c/a", "c/b", "c/g"]);
  expect(shownColumns(fleet, { text: "cart" }), "of the applications that are shown").toEqual(["c/d", "c/e", "c/f", "c/a", "c/b", "c/c", "c/g"]);
});

test("a cluster without a MemberCluster that can be read is a column too", () => {
  expect(shownColumns(fleetOf([app("web", "Ready", [cell("east")])]))).toEqual(["c/east"]);
});

test("a filter of clusters by name, region and label", () => {
  const fleet = fleetOf([], [{ ...cluster("a", "eu"), labels: { tier: "gold" } }, cluster("b", "us")]);
  const keys = (text: string) => shownColumns(fleet, { cluster: text });
  expect(keys("tier=gold")).toEqual(["c/a"]);
  expect(keys("us")).toEqual(["c/b"]);
  expect(keys("b")).toEqual(["c/b"]);
  expect(keys("tier")).toEqual(["c/a"]);
});

test("a region counts the phases of its clusters, and the fleet those of all", () => {
  const row = rowOf(app("web", "Failed", [cell("a"), cell("b", "Unknown"), cell("c", "Failed"), cell("d", "Failed"), cell("z", "Failed")]));
  expect(Object.fromEntries(fold(row, ["a", "b", "c", "d", "e"].map((name) => cluster(name))))).toEqual({ Failed: 2, Unknown: 1, Ready: 1 });
  expect(fold(row, [cluster("e")]).size).toBe(0);
  expect(Object.fromEntries(totalOf([row, row]))).toEqual({ Failed: 6, Unknown: 2, Ready: 2 });
});

test("why a cluster is not placed: exact where the status names it, and otherwise all that is possible", () => {
  const selector = { reason: "SelectorMismatch", count: 5, examples: ["a", "b", "c"], requirements: ["region=eu"] };
  const limit = { reason: "LimitReached", count: 4, examples: ["d", "e", "f"] };
  const taint = { reason: "TaintNotTolerated", count: 1, examples: ["t"] };
  const of = (excluded: App["excluded"]) => app("web", "Ready", [], { excluded });
  expect(whyNotPlaced(of([selector, limit]), "a")).toEqual([selector]);
  expect(whyNotPlaced(of([selector, limit]), "x")).toEqual([selector, limit]);
  expect(whyNotPlaced(of([selector, taint]), "x")).toEqual([selector]);
  expect(notPlacedInWords(of([selector, limit]), "x").long).toBe("not placed: other labels (wanted region=eu), or limit is reached; open the cell to see which");
  expect(notPlacedInWords(of([selector, limit]), "x").short).toBe("one of 2 reasons");
  expect(notPlacedInWords(of([selector]), "x").short).toBe("wanted region=eu");
  expect(notPlacedInWords(of([]), "x").long).toBe("not placed");
});

test("changes in words name three, and count the rest", () => {
  const before = fleetOf([app("a"), app("b"), app("c"), app("d")], [cluster("east")]);
  const after = apply(before, { hub, apps: [app("a", "Failed"), app("b", "Failed"), app("c", "Unknown"), app("new")], clusters: [cluster("east", "", "False"), cluster("new")] });
  expect(announce(before, after)).toBe("cluster east is not Ready, shop/a is Failed, shop/b is Failed and 1 more");
  expect(announce(after, after)).toBe("");
});

test("the parts of a change are one change", () => {
  const parts = [
    { full: true, more: true, hub, clusters: [cluster("east")], gone: ["app/a/b"] },
    { more: true, hub, clusters: [cluster("west")], apps: [app("a")] },
    { hub: { ...hub, problem: "lost" }, apps: [app("b")] },
  ];
  const joined = parts.reduce<Change | undefined>((before, part) => joinParts(before, part), undefined);
  expect(joined).toEqual({ full: true, hub: { ...hub, problem: "lost" }, clusters: [cluster("east"), cluster("west")], apps: [app("a"), app("b")], gone: ["app/a/b"] });
});

test("a change of an application leaves the list of clusters the same, also of those without MemberCluster", () => {
  const before = fleetOf([app("web", "Ready", [cell("east"), cell("gone")])], [cluster("east")]);
  const clusters = allClusters(before);
  const after = apply(before, { hub, apps: [app("web", "Failed", [cell("gone"), cell("east")])] });
  expect(after.clusters).toBe(before.clusters);
  expect(allClusters(after, clusters)).toBe(clusters);
  const changed = apply(after, { hub, clusters: [cluster("east", "", "False")] });
  expect(changed.rows).toBe(after.rows);
  expect(allClusters(changed, clusters)).not.toBe(clusters);
  expect(allClusters(apply(after, { hub, gone: ["app/shop/web"] }), clusters).map((c) => c.name)).toEqual(["east"]);
});
