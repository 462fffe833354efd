import { expect, test } from "vitest";
import { age, duration, gates, inWords, secondLine } from "./words";

const noon = Date.parse("2026-05-04T12:00:00Z");
const at = (seconds: number) => new Date(noon - seconds * 1000).toISOString();

test.each([
  [-5, "0s"],
  [0, "0s"],
  [119, "119s"],
  [120, "2m"],
  [7199, "119m"],
  [7200, "2h"],
  [172799, "47h"],
  [172800, "2d"],
])("an age of %d seconds is %s", (seconds, want) => {
  expect(age(at(seconds), noon)).toBe(want);
});

test.each([
  [0, "0 s"],
  [45, "45 s"],
  [90, "90 s"],
  [600, "10 min"],
  [3600, "1 h"],
])("a duration of %d seconds is %s", (seconds, want) => {
  expect(duration(seconds)).toBe(want);
});

test("a reason that is not known is split into words", () => {
  expect(inWords("ImagePullBackOff")).toBe("image pull fails");
  expect(inWords("SomethingNewHappened")).toBe("something new happened");
});

test("an Unknown cell says how old it is", () => {
  expect(secondLine({ cluster: "a", phase: "Unknown", ready: 3, wanted: 3, reason: "ClusterUnreachable", since: at(300) }, noon)).toBe("unreachable for 5m");
  expect(secondLine({ cluster: "a", phase: "Ready", ready: 3, wanted: 3 }, noon)).toBe("");
});

test("the gates of a stage", () => {
  const stage = { name: "eu", clusters: 2, upToDate: 0, available: 0 };
  expect(gates({ ...stage, phase: "Pending", needsApproval: true, soakSeconds: 600 }, noon)).toBe("waits for the stages before; needs approval; soaks 10 min");
  expect(gates({ ...stage, phase: "AwaitingApproval", needsApproval: true, since: at(60) }, noon)).toBe("awaits approval, 60s");
  expect(gates({ ...stage, phase: "Soaking", soakSeconds: 3600, since: at(300) }, noon)).toBe("soaking, 5m; soaks 1 h");
  expect(gates({ ...stage, phase: "Completed", needsApproval: true, approved: true }, noon)).toBe("completed; approved");
  expect(gates({ ...stage, phase: "Skipped" }, noon)).toBe("skipped: no cluster");
});
