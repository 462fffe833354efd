package main

import (
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
	"time"
)

func TestPackages_with_goroutines_are_tested_with_the_race_detector(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		want bool
	}{
		"a go statement":        {"func f() { go f() }", true},
		"a channel":             {"func f(<-chan int) {}", true},
		"a mutex":               {"import \"sync\"\nvar m sync.Mutex", true},
		"a value computed late": {"import \"sync\"\nvar f = sync.OnceValue(g)", false},
		"an atomic number":      {"import \"sync/atomic\"\nvar n atomic.Int64", true},
		"a group":               {"import \"golang.org/x/sync/errgroup\"\nvar g errgroup.Group", true},
		"none":                  {"import \"time\"\nfunc f() time.Time { return time.Now() }", false},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+test.code, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := usesGoroutines(file); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestReport_shows_results_as_they_come_and_the_output_of_failed_tests_only(t *testing.T) {
	var out strings.Builder
	start := time.Unix(0, 0)
	now := start
	r := newReport(&out, func() time.Time { return now }, 4)
	for _, line := range []string{
		`{"Action":"start","Package":"example/slow"}`,
		`{"Action":"run","Package":"example/slow","Test":"TestGood"}`,
		`{"Action":"output","Package":"example/slow","Test":"TestGood","Output":"    a.go:1: of no interest\n"}`,
		`{"Action":"pass","Package":"example/slow","Test":"TestGood"}`,
		`{"Action":"start","Package":"example/fast"}`,
		`{"Action":"output","Package":"example/fast","Output":"panic: of no interest, a test has recovered\n"}`,
		`{"Action":"output","Package":"example/fast","Output":"PASS\n"}`,
		`{"Action":"output","Package":"example/fast","Output":"ok  \texample/fast\t0.1s\n"}`,
		`{"Action":"pass","Package":"example/fast"}`,
	} {
		r.line(line+"\n", false)
	}
	r.line(`{"Action":"start","Package":"example/slow"}`+"\n", true)
	r.line(`{"Action":"output","Package":"example/slow","Output":"ok  \texample/slow\t0.2s\n"}`+"\n", true)
	if r.line(`{"Action":"pass","Package":"example/slow"}`+"\n", true) {
		t.Error("a package that passed has failed")
	}
	now = start.Add(90 * time.Second)
	r.pulse()
	for _, line := range []string{
		`{"Action":"run","Package":"example/slow","Test":"TestBad"}`,
		`{"Action":"output","Package":"example/slow","Test":"TestBad","Output":"=== RUN   TestBad\n"}`,
		`{"Action":"output","Package":"example/slow","Test":"TestBad","Output":"    a.go:2: bad\n"}`,
		`{"Action":"fail","Package":"example/slow","Test":"TestBad"}`,
		`{"Action":"run","Package":"example/slow","Test":"TestHangs"}`,
		`{"Action":"output","Package":"example/slow","Test":"TestGood","Output":"panic: test timed out\n"}`,
		`{"Action":"output","Package":"example/slow","Test":"TestGood","Output":"goroutine 1 [running]:\n"}`,
		`{"Action":"output","Package":"example/slow","Output":"FAIL\texample/slow\t95s\n"}`,
		`{"Action":"fail","Package":"example/slow"}`,
		`{"Action":"build-output","ImportPath":"example/broken [example/broken.test]","Output":"b.go:1:1: syntax error\n"}`,
		`{"Action":"start","Package":"example/broken"}`,
		`{"Action":"output","Package":"example/broken","Output":"FAIL\texample/broken [build failed]\n"}`,
		`{"Action":"fail","Package":"example/broken","FailedBuild":"example/broken [example/broken.test]"}`,
	} {
		r.line(line+"\n", false)
	}
	err := r.finish()
	const want = "ok  \texample/fast\t0.1s\n" +
		"ok  \texample/slow\t0.2s (race)\n" +
		"... 1m30s: 2 of 4 packages done; running: example/slow for 1m30s, 1 tests done\n" +
		"    a.go:2: bad\n" +
		"panic: test timed out\n" +
		"goroutine 1 [running]:\n" +
		"FAIL\texample/slow\t95s\n" +
		"b.go:1:1: syntax error\n" +
		"FAIL\texample/broken [build failed]\n" +
		"4 packages took 1m30s\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err == nil || err.Error() != "failed: example/slow, example/broken" {
		t.Errorf("got error %v", err)
	}
}

// In a package without goroutines, no test is run with the race detector. In one that starts API
// servers, each test runs once: in a sample with the race detector, or without it.
func TestGroups_run_each_test_once(t *testing.T) {
	t.Setenv("SAMPLE", "2") // has package delivery
	packages, err := list(t.Context(), []string{"../../controllers/delivery", "../../controllers/rollout", "../wait"})
	if err != nil {
		t.Fatal(err)
	}
	for which, want := range map[string]string{
		"concurrent": "race delivery; plain delivery; race wait; plain rollout",
		"all":        "race delivery rollout wait",
		"none":       "plain delivery rollout wait",
	} {
		all, err := groups(which, packages, true)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range all {
			line := map[bool]string{true: "race", false: "plain"}[g.isRaced]
			for _, name := range g.packages {
				line += " " + path.Base(name)
			}
			got = append(got, line)
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: got %s, want %s", which, got, want)
		}
	}
	all, err := groups("concurrent", packages, true)
	if err != nil {
		t.Fatal(err)
	}
	taken, isRun := strings.CutPrefix(all[0].flags[0], "-run=")
	left, isSkip := strings.CutPrefix(all[1].flags[0], "-skip=")
	if !isRun || !isSkip || taken != left || strings.Count(taken, "|") < 20 {
		t.Errorf("the sample is %s, and without the race detector runs what is not %s", taken, left)
	}
	t.Setenv("SAMPLE", "1") // does not have package delivery
	if all, _ = groups("concurrent", packages, true); len(all) != 2 || path.Base(all[1].packages[0]) != "delivery" || len(all[1].flags) > 0 {
		t.Errorf("a package that is not in the sample is not tested without the race detector: %+v", all)
	}
	if all, _ = groups("concurrent", packages, false); len(all) != 2 {
		t.Errorf("without a sample, there are %d groups", len(all))
	}
}
