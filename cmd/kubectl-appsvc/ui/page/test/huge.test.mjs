import assert from "node:assert/strict";
import { test } from "node:test";
import { changeSlices, opened, patchStatus, read, report, useBrowser, watchTasks } from "./browser.mjs";

const shared = useBrowser();

// Limits that hold on a machine with other work too. What was measured is printed.
const limits = { open: 60_000, change: 30_000, blocked: 5_000 };

// slicesOf returns the AppServiceSlices that have the entry of a cluster.
async function slicesOf(cluster) {
  const { items } = await read("appserviceslices");
  return items.filter((slice) => slice.clusters?.some((entry) => entry.name === cluster));
}

test("ten thousand clusters are folded by region, and a region unfolds", async () => {
  const started = performance.now();
  const page = await shared.open();
  await page.evaluate(watchTasks);
  await page.locator('td[data-row$="/app-000"][data-column="r/region-9"]', { hasText: "1000/1000" }).waitFor();
  report("from the navigation to the cells of 10000 clusters", performance.now() - started, limits.open);
  await page.waitForFunction(() => /20 applications · 10000 clusters/.test(document.querySelector(".totals").innerText));
  report("longest time without reaction while it opens", await page.evaluate(() => window.longest), limits.blocked);
  assert.equal(await page.locator("th.head").count(), 10);
  const unfolding = performance.now();
  await page.locator('th[data-column="r/region-0"]').click();
  await page.locator('th[data-column="c/cluster-00000"]').waitFor();
  report("a region of 1000 clusters unfolds", performance.now() - unfolding, limits.change);
  assert.equal(await page.locator("table").getAttribute("aria-colcount"), "1011");
  assert.ok((await page.locator("td.cell").count()) < 700);
  await page.locator("#matrix").focus();
  await page.keyboard.press("Control+End");
  await page.locator('td.active[data-row$="/app-019"][data-column="r/region-9"]').waitFor();
});

test("a change of one entry in a slice is on the screen soon", async () => {
  const page = await opened(await shared.open());
  await page.evaluate(watchTasks);
  const slice = (await slicesOf("cluster-00003")).find((item) => item.appService.name === "app-000");
  const row = `${slice.metadata.namespace}/app-000`;
  const times = [];
  for (const phase of ["Failed", "Ready", "Failed", "Ready", "Failed"]) {
    await changeSlices([slice], "cluster-00003", { phase });
    const started = performance.now();
    await page.waitForFunction(([key, wanted]) => document.querySelector(`td.shares[data-row="${key}"][data-column="r/region-3"]`)?.querySelector(".Failed") ? wanted === "Failed" : wanted === "Ready", [row, phase], { polling: "raf" });
    times.push(performance.now() - started);
  }
  report("from the write to the screen, slowest of five", Math.max(...times), limits.change);
  report("longest time without reaction", await page.evaluate(() => window.longest), limits.blocked);
});

test("a cluster that dies changes all applications, and the page stays responsive", async () => {
  const page = await opened(await shared.open());
  const slices = await slicesOf("cluster-00007");
  assert.equal(slices.length, 20);
  await page.evaluate(watchTasks);
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const lost = Promise.all([
    patchStatus("memberclusters/cluster-00007", { conditions: [{ type: "Ready", status: "False", reason: "Unreachable", message: "no answer", lastTransitionTime: now }] }),
    changeSlices(slices, "cluster-00007", { phase: "Unknown", lastKnownPhase: "Ready", reason: "ClusterUnreachable", lastTransitionTime: now }),
  ]);
  // Meanwhile, a user types.
  const started = performance.now();
  await page.getByLabel("Text").fill("app-01");
  await page.waitForFunction(() => document.querySelector("table").getAttribute("aria-rowcount") === "11");
  report("a filter while 20 applications change", performance.now() - started, limits.change);
  await page.getByLabel("Text").fill("");
  await lost;
  const written = performance.now();
  await page.getByRole("button", { name: /Unknown 20/ }).waitFor();
  report("from the last write to the screen", performance.now() - written, limits.change);
  report("longest time without reaction", await page.evaluate(() => window.longest), limits.blocked);
  assert.match(await page.locator('th[data-column="r/region-7"]').innerText(), /1 not Ready/);
});

test("no request left this server, and there was no error", () => {
  assert.deepEqual(shared.elsewhere, []);
  assert.deepEqual(shared.errors, []);
});
