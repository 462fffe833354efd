import { expect, test } from "vitest";
import { barOf, countsInSigns, countsInWords, sharesOf } from "./shares";
import type { Phase } from "./types";

const counts = (of: Partial<Record<Phase, number>>) => new Map(Object.entries(of) as [Phase, number][]);

test("each phase has its share, worst first", () => {
  expect(sharesOf(counts({ Ready: 60, Failed: 30, Unknown: 10, Pending: 0 }))).toEqual([
    { phase: "Failed", count: 30, percent: 30 },
    { phase: "Unknown", count: 10, percent: 10 },
    { phase: "Ready", count: 60, percent: 60 },
  ]);
});

test("one failed cluster of a thousand can be seen, and the bar is full", () => {
  const shares = sharesOf(counts({ Ready: 979, Unknown: 20, Failed: 1 }));
  expect(shares.map(({ phase, percent }) => [phase, percent])).toEqual([
    ["Failed", 4],
    ["Unknown", 4],
    ["Ready", 92],
  ]);
  expect(sharesOf(counts({ Ready: 979, Unknown: 20, Failed: 1 }), 0.5).map(({ percent }) => Math.round(percent * 10) / 10)).toEqual([0.5, 2, 97.5]);
});

test("a bar has the colours of the phases one after the other", () => {
  expect(barOf(sharesOf(counts({ Failed: 1, Ready: 3 })))).toBe("linear-gradient(to right, var(--Failed-strong) 0.00% 25.00%, var(--Ready-strong) 25.00% 100.00%)");
});

test("words and signs count what is not Ready", () => {
  const shares = sharesOf(counts({ Failed: 3, Unknown: 20, Ready: 100 }));
  expect(countsInWords(shares)).toBe("3 Failed, 20 Unknown");
  expect(countsInSigns(shares).map(({ text }) => text)).toEqual(["✕ 3", "? 20"]);
  expect(countsInWords(sharesOf(counts({ Ready: 1 })))).toBe("");
});
