// What the tests in a browser share. ../../browser_test.go starts them.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { after, afterEach, before } from "node:test";
import { chromium } from "playwright-core";

export const url = process.env.UI_URL;
export const origin = new URL(url).origin;
const group = "fleetwright.dev/v1alpha1";

// patience is how long a test waits before it fails, in milliseconds. A busy machine delays everything.
const patience = 600_000;

export const launch = (...more) =>
  chromium.launch({
    executablePath: process.env.UI_CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync", ...more],
  });

// useBrowser starts a browser for all tests of a file. Each page notes its requests to other
// origins, its errors, and violations of the Content-Security-Policy.
export function useBrowser() {
  const shared = { elsewhere: [], errors: [] };
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
  });
  // A page that stays open would draw the changes of the next tests, too.
  afterEach(async () => {
    await Promise.all(browser.contexts().map((context) => context.close()));
  });
  shared.open = async (options = {}, address = url) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(patience);
    const page = await context.newPage();
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== origin) shared.elsewhere.push(request.url());
    });
    page.on("pageerror", (error) => shared.errors.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") shared.errors.push(message.text());
    });
    await page.goto(address);
    return page;
  };
  return shared;
}

// opened waits until the page has its data.
export async function opened(page) {
  await page.locator(".live.open").waitFor();
  await page.locator("td.cell").first().waitFor();
  return page;
}

// screenshot writes a picture for the documents, if they are wanted.
export async function screenshot(page, name) {
  const directory = process.env.UI_SCREENSHOTS;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: `${directory}/${name}.png` });
}

export const cell = (page, app, cluster) => page.locator(`td[data-row="${app}"][data-column="c/${cluster}"]`);

// patch changes an object on the hub, and returns when the API server has it. A busy machine may make the
// API server time out; a merge patch can be repeated.
async function patch(path, change) {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${process.env.UI_CONTROL}/apis/${path}`, {
      method: "PATCH",
      headers: { "Content-Type": "application/merge-patch+json" },
      body: JSON.stringify(change),
    });
    const text = await response.text();
    if (response.status === 200) return;
    assert.ok(response.status >= 500 && attempt < 5, text);
  }
}

// patchStatus changes the status of an object of ours.
export const patchStatus = (path, status) => patch(`${group}/${path}/status`, { status });

// renewLease changes when the operator last renewed its Lease, in seconds from now.
export async function renewLease(seconds) {
  const renewTime = new Date(Date.now() + seconds * 1000).toISOString().replace("Z", "000Z");
  await patch("coordination.k8s.io/v1/namespaces/default/leases/fleetwright", { spec: { renewTime } });
}

export async function read(path) {
  const response = await fetch(`${process.env.UI_CONTROL}/apis/${group}/${path}`);
  assert.equal(response.status, 200);
  return response.json();
}

// forEach calls act for each item, eight at once. If all came at once, a busy API server would finish
// none of them in time.
async function forEach(items, act) {
  const rest = [...items];
  const worker = async () => {
    while (rest.length > 0) await act(rest.shift());
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

// changeSlices changes the entry of a cluster in AppServiceSlices.
export async function changeSlices(slices, cluster, change) {
  await forEach(slices, async (slice) => {
    const clusters = slice.clusters.map((entry) => (entry.name === cluster ? { ...entry, ...change } : entry));
    await patch(`${group}/namespaces/${slice.metadata.namespace}/appserviceslices/${slice.metadata.name}`, { clusters });
  });
}

export async function control(action) {
  const response = await fetch(`${process.env.UI_CONTROL}/control/${action}`, { method: "POST" });
  assert.equal(response.status, 200);
}

// loseCluster does what the operator does when a cluster does not respond: the MemberCluster is not
// Ready, and each entry of it is Unknown.
export async function loseCluster(name, apps) {
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  await patchStatus(`memberclusters/${name}`, {
    conditions: [{ type: "Ready", status: "False", reason: "Unreachable", message: "no answer", lastTransitionTime: now }],
  });
  await forEach(apps, async (app) => {
    const clusters = app.status.clusters.map((entry) =>
      entry.name === name ? { ...entry, phase: "Unknown", lastKnownPhase: entry.phase, reason: "ClusterUnreachable", lastTransitionTime: now } : entry,
    );
    await patchStatus(`namespaces/${app.metadata.namespace}/appservices/${app.metadata.name}`, { clusters });
  });
}

// watchTasks notes the longest time in which the page could not react.
export const watchTasks = () => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  }).observe({ type: "longtask" });
};

// report prints a measured time. With UI_FULL, it fails if the time is not below a limit: such a run has
// the machine for itself.
export function report(name, milliseconds, limit) {
  console.log(`${name}: ${Math.round(milliseconds)} ms`);
  assert.ok(process.env.UI_FULL !== "true" || milliseconds < limit, `${name} took ${milliseconds} ms, more than ${limit}`);
}
