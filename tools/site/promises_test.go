package main

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestPromisesOfTheRepository(t *testing.T) {
	own := readOwn(t)
	rows, err := own.readPromises()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, ofSection := range rows {
		found += len(ofSection)
	}
	if found < 80 {
		t.Errorf("%d rows of promises: some were not found", found)
	}
	for _, err := range own.checkPromises() {
		t.Error(err)
	}
}

func TestCheckPromises(t *testing.T) {
	const header = "# C\n\n## Promises and their proofs\n\n### One\n\n"
	files := map[string]string{
		"README.md":            "# A\n\n## Why Fleetwright\n\n- **It is `fast`.** [It](x) is\n  small, too.\n\nAnd it is free.\n\n## Other\n\nNot promised.\n",
		"docs/architecture.md": "# B\n\n## Invariants\n\nEach has tests.\n\n1. **Nothing is lost.** Really.\n2. **Nothing is slow**, at rest.\n",
		"docs/library.md":      "# D\n\n## What the provider promises\n\n- **It answers.**\n",
		"docs/correctness.md": header +
			"| [README](../README.md#why-fleetwright) | claim | proof |\n|---|---|---|\n" +
			"| It is fast. | a | `pkg/a.TestFast`, `make bench B1` |\n" +
			"|  | b | `pkg/a.BenchmarkFast` |\n" +
			"| It is small, too. |  | `pkg/a.TestFast/a small one` |\n" +
			"| And it is free. |  | `explore: a rule` |\n\n" +
			"### Two\n\n| [B](architecture.md#invariants) | claim | proof |\n|---|---|---|\n" +
			"| Nothing is lost. Really. |  | `pkg/a.TestFast` |\n" +
			"| Nothing is slow |  | `explore: progress` |\n\n" +
			"### Three\n\n| [D](library.md#what-the-provider-promises) | claim | proof |\n|---|---|---|\n" +
			"| It answers. |  | `pkg/a.TestFast` |\n",
		"pkg/a/a_test.go":                      "package a\n\nfunc TestFast(t *testing.T) { t.Run(\"a small one\", nil) }\n\nfunc BenchmarkFast(b *testing.B) {}\n\nfunc (x) TestMethod() {}\n",
		"pkg/a/a.go":                           "package a\n\nfunc TestNone() {}\n",
		"cmd/bench/main.go":                    "package main\n\nvar known = []string{\"B1\", \"B2\"}\n\nfunc f() { _ = \"B3\" }\n",
		"internal/explore/explore.go":          "package explore\n\nvar rules = []string{\"progress\"}\n\nvar other = \"other\"\n",
		"internal/explore/fleet/rules_test.go": "package fleet\n\nvar rules = []string{\"a rule\"}\n",
	}
	for name, test := range map[string]struct{ file, old, replacement, want string }{
		"all is proven":                             {},
		"a test is renamed":                         {"pkg/a/a_test.go", "TestFast", "TestQuick", "docs/correctness.md: It is fast.: pkg/a has no TestFast"},
		"a benchmark is deleted":                    {"pkg/a/a_test.go", "func BenchmarkFast", "func benchmark", "docs/correctness.md: It is fast.: pkg/a has no BenchmarkFast"},
		"a subtest is renamed":                      {"pkg/a/a_test.go", "a small one", "another", `docs/correctness.md: It is small, too.: pkg/a.TestFast has no subtest "a small one"`},
		"a test is a method":                        {"docs/correctness.md", "BenchmarkFast", "TestMethod", "docs/correctness.md: It is fast.: pkg/a has no TestMethod"},
		"a test is in no file of tests":             {"docs/correctness.md", "BenchmarkFast", "TestNone", "docs/correctness.md: It is fast.: pkg/a has no TestNone"},
		"a package is moved":                        {"docs/correctness.md", "pkg/a.Bench", "pkg/b.Bench", "docs/correctness.md: It is fast.: there is no package pkg/b"},
		"a scenario is deleted":                     {"cmd/bench/main.go", `"B1", `, "", "docs/correctness.md: It is fast.: cmd/bench has no scenario B1"},
		"a scenario is no scenario of the list":     {"docs/correctness.md", "bench B1", "bench B3", "docs/correctness.md: It is fast.: cmd/bench has no scenario B3"},
		"a rule is renamed":                         {"internal/explore/fleet/rules_test.go", "a rule", "the rule", `docs/correctness.md: And it is free.: internal/explore has no rule "a rule"`},
		"a rule is another text":                    {"docs/correctness.md", "explore: progress", "explore: other", `docs/correctness.md: Nothing is slow: internal/explore has no rule "other"`},
		"a proof of another form":                   {"docs/correctness.md", "`make bench B1`", "`make soak`", "docs/correctness.md: It is fast.: make soak is no proof: write package.TestName, explore: RULE or make bench SCENARIO"},
		"a proof in words":                          {"docs/correctness.md", "`explore: a rule`", "by hand", "docs/correctness.md: And it is free.: it has no proof\n" + `docs/correctness.md: And it is free.: "by hand" is no proof: proofs are code, with commas between them`},
		"the README says something else":            {"README.md", "small", "tiny", "docs/correctness.md: README.md#why-fleetwright does not say \"It is small, too.\"\ndocs/correctness.md has no row for README.md#why-fleetwright: It is tiny, too."},
		"the README promises more":                  {"README.md", "free.", "free. It is safe.", "docs/correctness.md has no row for README.md#why-fleetwright: It is safe."},
		"the README has another item":               {"README.md", "\n\nAnd", "\n- **It is safe.**\n\nAnd", "docs/correctness.md has no row for README.md#why-fleetwright: It is safe."},
		"a quote is from another section":           {"docs/correctness.md", "And it is free.", "Not promised.", "docs/correctness.md: README.md#why-fleetwright does not say \"Not promised.\"\ndocs/correctness.md has no row for README.md#why-fleetwright: And it is free."},
		"an invariant has another title":            {"docs/architecture.md", "Nothing is slow", "Nothing waits", "docs/correctness.md: docs/architecture.md#invariants does not say \"Nothing is slow\"\ndocs/correctness.md has no row for docs/architecture.md#invariants: Nothing waits"},
		"there is another invariant":                {"docs/architecture.md", ", at rest.\n", ".\n3. **Nothing is shared.**\n", "docs/correctness.md has no row for docs/architecture.md#invariants: Nothing is shared."},
		"an invariant has no title":                 {"docs/architecture.md", "**Nothing is slow**", "Nothing is slow", "docs/architecture.md#invariants: an item has no bold title: Nothing is slow, at rest."},
		"a section is renamed":                      {"docs/architecture.md", "## Invariants", "## Laws", "docs/architecture.md#invariants has no items"},
		"a table quotes a section without promises": {"docs/correctness.md", "README.md#why-fleetwright", "README.md#other", "docs/correctness.md: a table quotes README.md#other, which is not in allPromised of tools/site/promises.go"},
		"a table has no link":                       {"docs/correctness.md", "[README](../README.md#why-fleetwright)", "README", "docs/correctness.md: the first cell of a table must link to the section that it quotes"},
		"the first row quotes nothing":              {"docs/correctness.md", "| It is fast. | a |", "| | a |", "docs/correctness.md: README.md#why-fleetwright does not say \"\""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := maps.Clone(files)
			if test.file != "" && !strings.Contains(changed[test.file], test.old) {
				t.Fatalf("%s lacks %q", test.file, test.old)
			}
			changed[test.file] = strings.Replace(changed[test.file], test.old, test.replacement, -1)
			delete(changed, "")
			r, err := readRepository(writeFiles(t, changed))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := errors.Join(r.checkPromises()...); err != nil {
				got = err.Error()
			}
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
