// What the tests measure on the screen. These functions run in the page.

// The contrast of WCAG 2, of all text that is drawn on one colour.
export const contrasts = () => {
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
export const faults = () => {
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
