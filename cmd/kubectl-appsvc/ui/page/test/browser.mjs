// What the tests in a browser share. ../../browser_test.go starts them.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

export const url = process.env.UI_URL;
export const origin = new URL(url).origin;
const api = `${process.env.UI_CONTROL}/apis/fleetwright.dev/v1alpha1`;

// useBrowser starts a browser for all tests of a file. Each page notes its requests to other
// origins, its errors, and violations of the Content-Security-Policy.
export function useBrowser() {
  const shared = { elsewhere: [], errors: [] };
  let browser;
  before(async () => {
    browser = await chromium.launch({
      executablePath: process.env.UI_CHROMIUM,
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    });
  });
  after(async () => {
    await browser?.close();
  });
  shared.open = async (options = {}, address = url) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
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

export const cell = (page, app, cluster) => page.locator(`td[data-row="${app}"][data-column="c/${cluster}"]`);

// patchStatus changes the status of an object on the hub, and returns when the API server has it.
export async function patchStatus(path, patch) {
  const response = await fetch(`${api}/${path}/status`, {
    method: "PATCH",
    headers: { "Content-Type": "application/merge-patch+json" },
    body: JSON.stringify({ status: patch }),
  });
  assert.equal(response.status, 200, await response.text());
}

// renewLease changes when the operator last renewed its Lease, in seconds from now.
export async function renewLease(seconds) {
  const renewTime = new Date(Date.now() + seconds * 1000).toISOString().replace("Z", "000Z");
  const response = await fetch(`${process.env.UI_CONTROL}/apis/coordination.k8s.io/v1/namespaces/default/leases/fleetwright`, {
    method: "PATCH",
    headers: { "Content-Type": "application/merge-patch+json" },
    body: JSON.stringify({ spec: { renewTime } }),
  });
  assert.equal(response.status, 200, await response.text());
}

export async function read(path) {
  const response = await fetch(`${api}/${path}`);
  assert.equal(response.status, 200);
  return response.json();
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
  await Promise.all(
    apps.map(async (app) => {
      const clusters = app.status.clusters.map((entry) =>
        entry.name === name ? { ...entry, phase: "Unknown", lastKnownPhase: entry.phase, reason: "ClusterUnreachable", lastTransitionTime: now } : entry,
      );
      await patchStatus(`namespaces/${app.metadata.namespace}/appservices/${app.metadata.name}`, { clusters });
    }),
  );
}
