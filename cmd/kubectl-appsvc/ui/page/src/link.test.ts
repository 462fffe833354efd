import { expect, test } from "vitest";
import { fragmentOf, renew, viewOf, type View } from "./link";
import { noFilter } from "./model";

const nothing: View = { filter: noFilter, open: new Set(), target: undefined };

test("a view and its fragment are the same thing", () => {
  const view: View = {
    filter: { namespace: "shop", phase: "Failed", text: "image & more", label: "team=shop,!old", cluster: "region=eu", order: "name" },
    open: new Set(["eu", "", "us"]),
    target: { app: { namespace: "shop", name: "web" }, cluster: "eu-west.example" },
  };
  const fragment = fragmentOf(view);
  expect(fragment).toBe("#namespace=shop&phase=Failed&text=image+%26+more&labels=team%3Dshop,%21old&clusters=region%3Deu&order=name&region=&region=eu&region=us&app=shop/web&cluster=eu-west.example");
  expect(viewOf(fragment)).toEqual({ ...view, open: new Set(["", "eu", "us"]) });
});

test("what is as it is at first is left out", () => {
  expect(fragmentOf(nothing)).toBe("");
  expect(viewOf("")).toEqual(nothing);
  expect(fragmentOf({ ...nothing, target: { cluster: "east" } })).toBe("#cluster=east");
});

test.each([
  ["a phase that does not exist", "#phase=Broken"],
  ["an order that does not exist", "#order=random"],
  ["a namespace that is no name", "#namespace=<b>"],
  ["an application without namespace", "#app=web"],
  ["an application with too many parts", "#app=a/b/c"],
  ["an application that is no name", "#app=shop/..%2F..%2Fapi"],
  ["a cluster that is no name", "#cluster=EAST!"],
  ["an application on a cluster that is no name", "#app=shop/web&cluster=%00"],
  ["a text without end", `#text=${"x".repeat(300)}`],
  ["a broken escape", "#app=%E0%A4%A"],
  ["an unknown key", "#colour=red&__proto__=1"],
  ["a token", "#token=SECRET"],
])("%s is ignored", (_, fragment) => {
  expect(viewOf(fragment)).toEqual(nothing);
  expect(fragmentOf(viewOf(fragment))).toBe("");
});

test("a broken value leaves the others alone", () => {
  expect(fragmentOf(viewOf("#phase=Broken&app=shop/web&order=name&token=SECRET"))).toBe("#order=name&app=shop/web");
});

test("the parts of a view that do not change are the same objects, so that nothing is read again", () => {
  const last = viewOf("#phase=Failed&region=eu&app=shop/web");
  const next = renew(last, "#phase=Ready&region=eu&app=shop/web");
  expect(next.filter.phase).toBe("Ready");
  expect(next.open).toBe(last.open);
  expect(next.target).toBe(last.target);
  expect(renew(last, "#phase=Failed&region=eu").target).toBeUndefined();
});
