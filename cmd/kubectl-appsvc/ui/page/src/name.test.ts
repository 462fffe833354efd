import { expect, test } from "vitest";
import { lineLength, splitName } from "./name";

test.each([
  ["east", "east", ""],
  ["checkout-cache", "checkout-cache", ""],
  ["edge-eu-west-001", "edge-eu-west-", "001"],
  ["edge-af-south-123", "edge-af-south-", "123"],
  ["inventory-gateway", "inventory-", "gateway"],
  ["averylongnamewithoutseparator", "averylongnamewi", "thoutseparator"],
  ["prod-eu-west-1-payments-cluster-blue", "prod-eu-west-1-payments-", "cluster-blue"],
])("%s is cut between its start and its end", (name, start, end) => {
  expect(splitName(name)).toEqual([start, end]);
});

test("the end of a name fits on a line, and start and end are the name", () => {
  for (let length = 1; length < 80; length++) {
    const name = "ab-".repeat(30).slice(0, length);
    const [start, end] = splitName(name);
    expect(start + end).toBe(name);
    expect(end.length).toBeLessThanOrEqual(lineLength);
  }
});
