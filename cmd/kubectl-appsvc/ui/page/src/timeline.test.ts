import { expect, test } from "vitest";
import { kindOf } from "./changes";
import { left, shortTime } from "./timeline";

test("how long a soak still lasts", () => {
  const now = Date.parse("2026-01-02T12:00:00Z");
  const after = (seconds: number) => left(new Date(now + seconds * 1000).toISOString(), now);
  expect([after(5), after(60), after(605), after(3600), after(7322)]).toEqual(["5 s left", "1 min left", "10 min 5 s left", "1 h left", "2 h 2 min left"]);
  expect([after(0), after(-9)]).toEqual(Array(2).fill("the time is over, and the next decision ends it"));
});

test("a time of another day has the day", () => {
  const now = new Date(2026, 0, 2, 12, 0, 0).getTime();
  expect(shortTime(new Date(2026, 0, 2, 9, 5, 7).toISOString(), now)).toBe("09:05:07");
  expect(shortTime(new Date(2026, 0, 1, 23, 5, 7).toISOString(), now)).toBe("Jan 1 23:05");
});

test("the lines of a diff", () => {
  const lines = ["--- revision 1", "+++ revision 2", "@@ -1,2 +1,2 @@", "-image: a", "+image: b", " name: x", "# revision 1 is the oldest"];
  expect(lines.map(kindOf)).toEqual(["place", "place", "place", "removed", "added", "same", "place"]);
});
