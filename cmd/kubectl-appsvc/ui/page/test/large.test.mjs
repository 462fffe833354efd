import assert from "node:assert/strict";
import { test } from "node:test";
import { loseCluster, opened, patchStatus, read, report, useBrowser, watchTasks } from "./browser.mjs";

const shared = useBrowser();

// The applications app-000 to last are Ready on all clusters of ten regions of this size.
const apps = Number(process.env.UI_APPS);
const last = `app-${String(apps - 1).padStart(3, "0")}`;
const region = Number(process.env.UI_CLUSTERS) / 10;

// Limits that hold on a machine with other work too. What was measured is printed.
const limits = { open: 15_000, change: 10_000, blocked: 3_000 };

test("the clusters are folded by region, and a region unfolds", async () => {
  const started = performance.now();
  const page = await opened(await shared.open());
  report("from the navigation to the first cells", performance.now() - started, limits.open);
  assert.equal(await page.locator("th.head").count(), 10);
  const text = (await page.locator('td[data-row$="/app-000"][data-column="r/region-0"]').innerText()).replace(/\s+/g, " ");
  assert.match(text, new RegExp(`✓.*${region}/${region}`));
  await page.locator('th[data-column="r/region-0"]').click();
  await page.locator('th[data-column="c/cluster-00000"]').waitFor();
  assert.equal(await page.locator("table").getAttribute("aria-colcount"), String(1 + 10 + region));
});

test("only the cells that can be seen are in the document, and all can be reached", async () => {
  const page = await opened(await shared.open());
  await page.locator('th[data-column="r/region-0"]').click();
  assert.ok((await page.locator("td.cell").count()) < 700);
  await page.locator("#matrix").focus();
  await page.keyboard.press("Control+End");
  await page.locator(`th.app[data-row$="/${last}"]`).waitFor();
  await page.locator(`td.active[data-row$="/${last}"][data-column="r/region-9"]`).waitFor();
  await page.keyboard.press("Control+Home");
  await page.locator('th.app[data-row$="/app-000"]').waitFor();
});

test("an update of one application is on the screen soon", async () => {
  const page = await opened(await shared.open());
  await page.evaluate(watchTasks);
  const app = (await read("appservices")).items.find((item) => item.metadata.name === "app-000");
  const row = `${app.metadata.namespace}/app-000`;
  const times = [];
  for (const phase of ["Failed", "Ready", "Failed", "Ready", "Failed"]) {
    const clusters = app.status.clusters.map((entry, i) => (i === 0 ? { ...entry, phase } : entry));
    await patchStatus(`namespaces/${app.metadata.namespace}/appservices/app-000`, { clusters });
    const started = performance.now();
    await page.waitForFunction(([key, wanted]) => document.querySelector(`td.shares[data-row="${key}"][data-column="r/region-0"]`)?.querySelector(".Failed") ? wanted === "Failed" : wanted === "Ready", [row, phase], { polling: "raf" });
    times.push(performance.now() - started);
  }
  report("from the write to the screen, slowest of five", Math.max(...times), limits.change);
  report("longest time without reaction", await page.evaluate(() => window.longest), limits.blocked);
});

test("a cluster that dies changes all applications, and the page stays responsive", async () => {
  const page = await opened(await shared.open());
  await page.evaluate(watchTasks);
  const { items } = await read("appservices");
  const lost = loseCluster("cluster-00007", items);
  // Meanwhile, a user types.
  const started = performance.now();
  await page.getByLabel("Text").fill("app-01");
  await page.waitForFunction(() => document.querySelector("table").getAttribute("aria-rowcount") === "11");
  report("a filter while all applications change", performance.now() - started, limits.change);
  await page.getByLabel("Text").fill("");
  await lost;
  const written = performance.now();
  await page.getByRole("button", { name: new RegExp(`Unknown ${apps}`) }).waitFor();
  report("from the last write to the screen", performance.now() - written, limits.change);
  report("longest time without reaction", await page.evaluate(() => window.longest), limits.blocked);
  assert.match(await page.locator('th[data-column="r/region-7"]').innerText(), /1 not Ready/);
});

test("no request left this server, and there was no error", () => {
  assert.deepEqual(shared.elsewhere, []);
  assert.deepEqual(shared.errors, []);
});
