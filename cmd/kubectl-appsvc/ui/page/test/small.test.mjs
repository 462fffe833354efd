import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { test } from "node:test";
import { cell, control, launch, loseCluster, opened, origin, patchStatus, read, renewLease, url, useBrowser } from "./browser.mjs";

const shared = useBrowser();

test("the page shows each phase with a sign, numbers and words", async () => {
  const page = await opened(await shared.open());
  const text = async (app, cluster) => (await cell(page, app, cluster).innerText()).replace(/\s+/g, " ");
  assert.match(await text("shop/checkout", "eu-west"), /✕.*Failed.*4\/6.*image pull fails/);
  assert.match(await text("shop/cart", "ap-south"), /\?.*Unknown.*5\/5.*unreachable for \dm/);
  assert.match(await text("shop/search", "eu-north"), /↻.*Progressing.*2\/4.*rolling out/);
  assert.match(await text("platform/mailer", "us-west"), /−.*Removing/);
  assert.match(await text("shop/search", "eu-west"), /not placed wanted tier=gold/);
  assert.match(await text("shop/images", "us-west"), /not placed cluster is cordoned/);
  assert.match(await text("shop/web", "eu-north"), /✓.*Ready.*3\/3.*r4/);
  const image = await cell(page, "shop/cart", "ap-south").locator(".box").evaluate((box) => getComputedStyle(box).backgroundImage);
  assert.match(image, /repeating-linear-gradient/, "an Unknown cell is hatched");
  const border = await cell(page, "shop/search", "eu-west").locator(".box").evaluate((box) => getComputedStyle(box).borderTopStyle);
  assert.equal(border, "dashed");
  assert.match(await page.locator("th.app", { hasText: "web" }).innerText(), /r5 2\/7\s*eu: awaits approval/);
  assert.match(await page.locator('th[data-column="c/us-west"]').innerText(), /us · v1.34.7\s*✓ Ready · cordoned/);
  assert.match(await page.locator('th[data-column="c/ap-south"]').innerText(), /✕ unreachable \dm/);
  const first = await page.locator("th.app b").allInnerTexts();
  assert.deepEqual(first.slice(0, 2), ["checkout", "batch"], "worst first");
});

test("the token leaves the address bar, and a reload finds it", async () => {
  const page = await opened(await shared.open());
  assert.equal(page.url(), `${origin}/`);
  await page.reload();
  await opened(page);
});

test("a filter by phase, text, label, namespace and cluster", async () => {
  const page = await opened(await shared.open());
  const apps = () => page.locator("th.app b").allInnerTexts();
  await page.getByRole("button", { name: /Failed 2/ }).click();
  assert.deepEqual(await apps(), ["checkout", "batch"]);
  await page.getByRole("button", { name: /Failed 2/ }).click();
  await page.getByLabel("Text").fill("image pull");
  assert.deepEqual(await apps(), []);
  await page.getByText("No application matches the filters.").waitFor();
  await page.getByLabel("Text").fill("imagepull");
  assert.deepEqual(await apps(), ["checkout"]);
  await page.getByLabel("Text").fill("");
  await page.getByLabel("Labels").fill("team=lab");
  assert.deepEqual(await apps(), ["batch"]);
  await page.getByLabel("Labels").fill("");
  await page.getByLabel("Namespace").selectOption("platform");
  assert.deepEqual((await apps()).sort(), ["gateway", "ledger", "mailer"]);
  await page.getByLabel("Clusters", { exact: true }).fill("tier=gold");
  assert.deepEqual((await page.locator("th.head b").allInnerTexts()).sort(), ["eu-north", "eu-south", "us-east"]);
});

test("a click shows the message, the events and the command", async () => {
  const page = await opened(await shared.open());
  await cell(page, "shop/checkout", "eu-west").click();
  const detail = page.locator(".detail");
  await detail.getByText("the image registry.example/shop/checkout:8 cannot be pulled").waitFor();
  await detail.getByText("eu-west: the image cannot be pulled").waitFor();
  await detail.getByText("kubectl appsvc why checkout eu-west --namespace=shop --context=demo").waitFor();

  await page.locator("th.app", { hasText: "web" }).click();
  await detail.getByText("kubectl appsvc rollout approve web --stage=eu --namespace=shop --context=demo").waitFor();
  const stages = await detail.locator(".stage").allInnerTexts();
  assert.match(stages[0], /us\s*2\/2\s*completed; soaks 10 min/);
  assert.match(stages[1], /eu\s*0\/3\s*awaits approval, \dm/);
  assert.match(await detail.locator(".revisions").innerText(), /5 on 2 clusters \(spec\)\s*4 on 5 clusters \(stable\)/);

  await page.locator('th[data-column="c/us-west"]').click();
  await detail.getByText("kubectl appsvc uncordon us-west --context=demo").waitFor();

  await cell(page, "lab/batch", "us-east").click();
  await detail.locator(".summary", { hasText: "not placed: other labels (wanted region=sa)" }).waitFor();
});

test("a detail follows the changes of its object", async () => {
  const page = await opened(await shared.open());
  await page.locator("th.app", { hasText: "ledger" }).click();
  await page.locator(".detail .message", { hasText: "all clusters are Ready" }).waitFor();
  const { status } = await read("namespaces/platform/appservices/ledger");
  await patchStatus("namespaces/platform/appservices/ledger", { conditions: status.conditions.map((c) => ({ ...c, message: "another message" })) });
  await page.locator(".detail .message", { hasText: "another message" }).waitFor();
});

test("the keyboard moves, opens and closes", async () => {
  const page = await opened(await shared.open());
  await page.getByLabel("Order").focus();
  await page.keyboard.press("Tab");
  const active = () => page.evaluate(() => document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.innerText.split("\n")[0]);
  assert.equal(await page.evaluate(() => document.activeElement.id), "matrix");
  assert.equal(await active(), "Application");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowUp");
  const cluster = await active();
  assert.equal(cluster, await page.locator("th.head b").first().innerText());
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const title = page.locator(".detail h2");
  await title.waitFor();
  assert.match(await title.innerText(), new RegExp(`shop/checkout on ${cluster}`));
  assert.equal(await page.evaluate(() => document.activeElement.id), "detail-title");
  await page.keyboard.press("Escape");
  await title.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.id), "matrix");
  await page.keyboard.press("Control+End");
  assert.match(await page.evaluate(() => document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).dataset.column), /^c\//);
});

test("the matrix is a grid with rows, columns and heads", async () => {
  const page = await opened(await shared.open());
  const grid = page.getByRole("grid", { name: /Applications by cluster/ });
  assert.equal(await grid.getAttribute("aria-rowcount"), "10");
  assert.equal(await grid.getAttribute("aria-colcount"), "8");
  assert.equal(await grid.getByRole("rowheader").count(), 9);
  assert.equal(await grid.getByRole("columnheader").count(), 8);
  assert.equal(await grid.getByRole("gridcell").count(), 63);
});

// The contrast of WCAG 2, of all text that is drawn on one colour.
const contrasts = () => {
  const channel = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const backs = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== "none") return style.backgroundImage.match(/rgb\([^)]*\)/g).map(parse);
      const color = parse(style.backgroundColor);
      if (color.length === 3 || color[3] > 0) return [color];
    }
    return [[255, 255, 255]];
  };
  const low = [];
  for (const element of document.querySelectorAll("#page *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest(".hidden") || element.disabled) continue;
    const text = luminance(parse(getComputedStyle(element).color));
    const worst = Math.min(...backs(element).map((back) => contrast(text, luminance(back))));
    if (worst < 4.5) low.push(`${element.className || element.tagName} "${element.textContent.trim()}": ${worst.toFixed(2)}`);
  }
  return low;
};

// What sticks out of the window, and cells or controls that overlap.
const faults = () => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} pixels wide`);
  const boxes = (selector) => [...document.querySelectorAll(selector)].map((element) => ({ element, box: element.getBoundingClientRect() }));
  for (const { element, box } of boxes(".toolbar *, .banner, .detail *")) {
    const isHidden = box.width === 0 || element.closest(".hidden");
    const scrolls = element.closest(".detail") !== null;
    if (!isHidden && (box.left < -0.5 || box.right > innerWidth + 0.5 || (!scrolls && box.bottom > innerHeight))) found.push(`${element.className || element.tagName} sticks out`);
  }
  for (const selector of [".toolbar label, .toolbar .chip, .toolbar h1, .totals, .live", "tbody .box", "thead th.head"]) {
    const all = boxes(selector);
    for (const [i, a] of all.entries()) {
      for (const b of all.slice(i + 1)) {
        const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (wide > 0.5 && high > 0.5) found.push(`"${a.element.innerText}" overlaps "${b.element.innerText}"`);
      }
    }
  }
  const main = document.querySelector("main").getBoundingClientRect();
  if (main.height < 200) found.push(`the matrix is ${main.height} pixels high`);
  return found;
};

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 800]) {
    test(`layout and contrast, ${colorScheme}, ${width} pixels wide`, async () => {
      const page = await opened(await shared.open({ colorScheme, viewport: { width, height: 800 } }));
      assert.deepEqual(await page.evaluate(faults), []);
      assert.deepEqual(await page.evaluate(contrasts), []);
      if (width === 1280) await screenshot(page, `ui-${colorScheme}`);
      await page.locator("th.app", { hasText: "web" }).click();
      await page.locator(".detail .revisions").waitFor();
      assert.deepEqual(await page.evaluate(faults), []);
      assert.deepEqual(await page.evaluate(contrasts), []);
      if (width === 1280) await screenshot(page, `ui-detail-${colorScheme}`);
    });
  }
}

async function screenshot(page, name) {
  const directory = process.env.UI_SCREENSHOTS;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: `${directory}/${name}.png` });
}

// listen notes what a screen reader says of an element: its text after each change.
const listen = (page, selector) =>
  page.evaluate((wanted) => {
    window.said = [];
    const element = document.querySelector(wanted);
    new MutationObserver(() => window.said.push(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
  }, selector);

test("a cluster that dies becomes Unknown without a reload, and a screen reader hears of it", async () => {
  const page = await opened(await shared.open());
  await page.evaluate(() => (window.notReloaded = true));
  await listen(page, "[role=status]");
  const { items } = await read("appservices");
  const there = items.filter((app) => app.status.clusters?.some((entry) => entry.name === "eu-south"));
  assert.ok(there.length > 5);
  await loseCluster("eu-south", there);
  for (const app of there) {
    await page.locator(`td.Unknown[data-row="${app.metadata.namespace}/${app.metadata.name}"][data-column="c/eu-south"]`).waitFor();
  }
  assert.match(await page.locator('th[data-column="c/eu-south"]').innerText(), /✕ unreachable/);
  await page.waitForFunction(() => window.said.join().includes("cluster eu-south is not Ready"));
  assert.equal(await page.evaluate(() => window.notReloaded), true);
});

// After a loss, there is a banner for each kind until its list is read again. An informer backs off for
// up to a minute.
const noBanner = (page) => page.waitForFunction(() => !document.querySelector(".banner"));

test("a banner says that the hub does not answer, and since when", async (t) => {
  t.after(() => control("restore")); // also if the test fails, for the next ones
  const page = await opened(await shared.open());
  await listen(page, "[role=alert]");
  await control("cut");
  const banner = page.locator(".banner", { hasText: /stale since \d\d:\d\d:\d\d \(\d+s\): the hub does not answer/ });
  await banner.waitFor();
  // The age in the banner changes. A screen reader hears of the problem once.
  const first = await banner.innerText();
  await page.waitForFunction((text) => document.querySelector(".banner").innerText !== text, first);
  assert.equal(await page.evaluate(() => window.said.filter((text) => text.includes("the hub does not answer")).length), 1);
  await control("restore");
  await noBanner(page);
});

test("a banner says that the operator does not run, until it returns", async () => {
  const page = await opened(await shared.open());
  await noBanner(page);
  await page.evaluate(() => (window.notReloaded = true));
  await renewLease(-200);
  await page.locator(".banner", { hasText: "The operator has not renewed its Lease for 3m" }).waitFor();
  assert.match(await page.locator(".banner").innerText(), /so what you see may be old: see kubectl get pods -n default$/);
  assert.match(await page.getByRole("alert").innerText(), /The operator has not renewed its Lease/);
  await renewLease(3600);
  await noBanner(page);
  assert.equal(await page.evaluate(() => window.notReloaded), true);
});

test("a banner says that the server does not answer, and the page connects again", async () => {
  const page = await opened(await shared.open());
  await control("stop");
  await page.locator(".banner", { hasText: /stale since \d\d:\d\d:\d\d .*kubectl appsvc ui does not answer/ }).waitFor();
  await control("start");
  await noBanner(page);
  await opened(page);
  shared.errors = shared.errors.filter((error) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING/.test(error));
});

test("a wrong token is refused in words", async () => {
  const page = await shared.open({}, url.replace(/token=.*/, "token=WRONG"));
  await page.getByText("This page needs its token").waitFor();
  assert.equal(await page.locator("table").count(), 0);
  shared.errors = shared.errors.filter((error) => !error.includes("401"));
});

// Another site, and another server on this machine. A new Chromium itself refuses such requests to this
// machine, and other browsers do not. So the test turns that off, and the server must refuse.
for (const other of ["http://evil.example", "http://127.0.0.1:9999"]) {
  test(`a page of another origin reads nothing: ${other}`, async (t) => {
    const token = url.split("token=")[1];
    const browser = await launch("--disable-features=LocalNetworkAccessChecks");
    t.after(() => browser.close());
    const page = await browser.newPage();
    await page.route(`${other}/**`, (route) => route.fulfill({ contentType: "text/html", body: "<h1>evil</h1>" }));
    await page.goto(other);
    const results = await page.evaluate(
      async ([address, secret]) => {
        const attempt = async (path, headers) => fetch(address + path, { headers }).then((response) => response.status, (error) => error.name);
        const frame = document.createElement("iframe");
        frame.src = address;
        document.body.append(frame);
        await new Promise((resolve) => (frame.onload = resolve));
        return [await attempt("/", {}), await attempt("/api/stream", {}), await attempt("/api/stream", { Authorization: `Bearer ${secret}` })];
      },
      [origin, token],
    );
    assert.deepEqual(results, ["TypeError", "TypeError", "TypeError"]);
    const frames = page.frames().filter((frame) => frame !== page.mainFrame());
    assert.equal(frames.length, 1);
    assert.equal(await frames[0].locator("#page").count(), 0, "the page is shown in a frame");
  });
}

test("no request left this server, and there was no error", () => {
  assert.deepEqual(shared.elsewhere, []);
  assert.deepEqual(shared.errors, []);
});
