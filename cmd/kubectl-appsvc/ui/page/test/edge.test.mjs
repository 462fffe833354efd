import assert from "node:assert/strict";
import { test } from "node:test";
import { opened, report, screenshot, url, useBrowser } from "./browser.mjs";

const shared = useBrowser();

// The clusters of eight regions, of which two of a hundred do not respond; edge_test.go creates them.
const region = Number(process.env.UI_CLUSTERS) / 8;

// Limits that hold on a machine with other work too. What was measured is printed.
const limits = { open: 15_000, nodes: 1_250 };

const cellOf = (page, app, name) => page.locator(`td[data-row$="/${app}"][data-column="r/${name}"]`);

test("the cells come soon, and the document stays small", async () => {
  const started = performance.now();
  const page = await opened(await shared.open());
  report("from the navigation to the cells", performance.now() - started, limits.open);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  console.log(`nodes of the document: ${nodes}`);
  assert.ok(nodes < limits.nodes, `${nodes} nodes`);
});

test("a cell of a region shows the shares of the phases, and not the worst of its clusters", async () => {
  const page = await opened(await shared.open());
  const failed = Math.floor(region / 2);
  const cell = cellOf(page, "inventory-gateway", "eu-west");
  assert.equal(await cell.getAttribute("aria-label"), `${region - failed} of ${region} clusters Ready, ${failed} Failed`);
  const text = (await cell.innerText()).replace(/\s+/g, " ");
  assert.equal(text, `${region - failed}/${region} ✕ ${failed}`);
  // The bar is red on its left, and green in the rest.
  const stops = await cell.locator(".strip").evaluate((strip) => getComputedStyle(strip).backgroundImage.match(/[\d.]+%/g).map(parseFloat));
  assert.equal(stops.length, 4);
  assert.ok(Math.abs(stops[1] - (100 * failed) / region) < 0.1, `${stops}`);
  assert.ok(!(await cell.getAttribute("class")).includes("Failed"));
  // A cluster of many that does not respond does not colour a row.
  const strip = page.locator("th.app", { hasText: "checkout-api" }).locator(".strip");
  const shares = await strip.evaluate((element) => getComputedStyle(element).backgroundImage.match(/[\d.]+%/g).map(parseFloat));
  assert.deepEqual(shares, [0, 4, 4, 100]);
});

test("applications and regions are ordered by the number of failed clusters", async () => {
  const page = await opened(await shared.open());
  const apps = await page.locator("th.app").evaluateAll((heads) => heads.map((head) => head.dataset.row.split("/")[1]));
  assert.deepEqual(apps.slice(0, 3), ["inventory-gateway", "checkout-notifier", "checkout-cache"]);
  assert.match(await page.locator("th.app").first().innerText(), /\d+ Failed, \d+ Unknown/);
  const first = await page.locator("th.head").evaluateAll((heads) => heads.map((head) => head.dataset.column.slice(2)));
  assert.equal(first[0], "eu-west");
  assert.deepEqual(first.slice(1, 4).sort(), ["sa-east", "us-east", "us-west"]);
  assert.equal(first[4], "eu-central");
});

// What can be seen of the names in a part of the page, and which of them are cut off at their end.
const seenNames = (selector) =>
  [...document.querySelectorAll(selector)].map((name) => {
    const end = name.querySelector(".end") ?? name;
    const box = end.getBoundingClientRect();
    const around = name.closest("th").getBoundingClientRect();
    const start = name.querySelector(".start");
    const isCut = start !== null && start.scrollWidth > start.clientWidth;
    const isWhole = end.scrollWidth <= end.clientWidth + 1 && box.width > 0 && box.right <= around.right && box.bottom <= around.bottom;
    return { seen: isCut ? `…${end.textContent}` : (start?.textContent ?? "") + end.textContent, isWhole };
  });

test("clusters of a region can be told apart, and so can applications beside the panel", async () => {
  const page = await opened(await shared.open({}, `${url}&clusters=af-south&region=af-south`));
  await page.locator("#matrix").focus();
  await page.locator('th.head[data-column="c/edge-af-south-003"]').waitFor();
  const check = async (selector, least) => {
    const names = await page.evaluate(seenNames, selector);
    assert.ok(names.length >= least, `${names.length} names`);
    assert.deepEqual(names.filter(({ isWhole }) => !isWhole), []);
    const seen = names.map((name) => name.seen);
    assert.equal(new Set(seen).size, seen.length, `names look the same: ${seen}`);
  };
  await check('th.head[data-column^="c/"] .name', 5);
  await check("th.app .name", 10);
  await page.locator("th.app").first().click();
  await page.locator(".detail h2").waitFor();
  await page.locator("#matrix.narrow").waitFor();
  await check("th.app .name", 10);
  // The namespace gives way first: no name is cut beside a namespace that can be read.
  const cut = await page.locator("th.app").evaluateAll((heads) =>
    heads.filter((head) => {
      const name = head.querySelector(".name .start") ?? head.querySelector(".name");
      return name.scrollWidth > name.clientWidth && head.querySelector(".namespace").clientWidth > 12;
    }).length,
  );
  assert.equal(cut, 0);
  await page.setViewportSize({ width: 400, height: 800 });
  await page.keyboard.press("Escape");
  await page.locator(".detail").waitFor({ state: "detached" });
  await check("th.app .name", 10);
});

test("a link opens an application that is far down", async () => {
  const page = await shared.open({ viewport: { width: 1280, height: 500 } }, `${url}&order=name&app=retail-stores-production/inventory-worker`);
  const row = page.locator("tr.open");
  await row.waitFor();
  await page.waitForFunction(() => {
    const box = document.querySelector("tr.open").getBoundingClientRect();
    return box.top > 0 && box.bottom <= innerHeight + 1;
  });
});

for (const colorScheme of ["light", "dark"]) {
  test(`pictures of the whole fleet, ${colorScheme}`, async () => {
    const page = await opened(await shared.open({ colorScheme }));
    await screenshot(page, `ui-large-${colorScheme}`);
    await page.locator('th[data-column="r/eu-west"]').click();
    await page.locator('th[data-column="c/edge-eu-west-001"]').waitFor();
    if (colorScheme === "light") await screenshot(page, "ui-large-region");
  });
}

test("no request left this server, and there was no error", () => {
  assert.deepEqual(shared.elsewhere, []);
  assert.deepEqual(shared.errors, []);
});
