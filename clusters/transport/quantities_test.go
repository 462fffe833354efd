package transport

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fleetwright/fleetwright/clusters/internal/cputime"
)

func TestQuantityScanner_returns_the_cost_of_a_number(t *testing.T) {
	const free, refused = 0, -1
	digits := func(n int) string { return strings.Repeat("1", n) }
	tests := map[string]struct {
		want  int
		texts []string
	}{
		"quantities": {free, []string{
			"0", "1", "100m", "1e3", "1E3", "12E", "12e6", "1.5Gi", "128974848", "1e-9", "-1e18", "1e99", "+.5", "1e-099", "12E-000000000000003",
		}},
		"other texts": {free, []string{
			"", "e", "e12345678", "1e", "1e-", "v1.2.3", "1.2.3", "1.36.3", "10.0.0.1", "2026-11-20T18:30:14Z", "1e12345678x", "x1e12345678", "1e1234e5678",
			"12345678-90e1-4234-9567-890123456789", "1234567e-1234-4567-8901-234567890123", "1e1234567-8901",
			"sha256:12e45678901234", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "app:12e45678", "1e123456789.example", "7d9f8e1c2", `\"1e12345678`, `1\u00312e12345678`,
		}},
		"three digits":                {1 << 10, []string{"1e100", "1e999", "1e-999", "123e+456", digits(19) + "e-999"}},
		"large, with three digits":    {17 << 10, []string{digits(19) + "e999"}},
		"four digits":                 {8 << 10, []string{"1e1000", "1e-9999", digits(19) + "e-9999", "1e00009999"}},
		"five digits, also in a hash": {64 << 10, []string{"12e45678", "1e-99999", "1E+99999", " 1e-99999 ", "\u00a01e-99999\u2003"}},
		"six digits":                  {1 << 20, []string{"1e-999999", "1e999999"}},
		"seven digits":                {32 << 20, []string{"1e-9999999", "123456e1234567"}},
		"too expensive": {refused, []string{
			"1e-10000000", "1e-2000000000", "1E2000000000", "1e+2000000000", "-1e-2000000000", "+1e-2000000000", ".1e-2000000000", "1.1e-2000000000",
			"1e00000000000000000010000000", "1e-4294967295", "1234567890123456789e2000000000", digits(19) + "e1000", digits(10) + "." + digits(10) + "e99999",
			" 1e-2000000000", "1e-2000000000 ", "\u30001e-2000000000\u0085",
		}},
		"many digits": {10_000 * 10_000 >> 14, []string{digits(10_000), digits(10_000) + "Ki", "0." + digits(9998), digits(10_000) + "x"}},
	}
	for name, test := range tests {
		for _, text := range test.texts {
			t.Run(name+"/"+text[:min(len(text), 40)], func(t *testing.T) {
				forms := []string{`"` + text + `"`}
				if strings.Trim(text, "0123456789.eE+-") == "" {
					forms = append(forms, text)
				}
				for _, form := range forms {
					got, err := priceOf(`{"a":[{"cpu" : ` + form + `}]}`)
					if want := max(0, test.want); got != want || errors.Is(err, ErrQuantityTooExpensive) != (test.want == refused) {
						t.Errorf("%.50s: %d, %v; want %d", form, got, err, test.want)
					}
				}
			})
		}
	}
}

// A string in a label or an argument may look like a number. Only fields that never hold a quantity
// are exempt from the cost.
func TestQuantityScanner_ignores_strings_that_are_no_quantities(t *testing.T) {
	tests := map[string]struct {
		document string
		refused  bool
	}{
		"a label":                           {`{"metadata":{"labels":{"a":"%s","b":"%[1]s"}}}`, false},
		"an annotation":                     {`{"metadata":{"annotations": {"a": "%s"}}}`, false},
		"a selector":                        {`{"spec":{"selector":{"matchLabels":{"a":"%s"}}}}`, false},
		"a selector of nodes":               {`{"spec":{"nodeSelector":{"a":"%s"}}}`, false},
		"an argument":                       {`{"containers":[{"args":["a","%s"]}]}`, false},
		"a variable":                        {`{"containers":[{"env":[{"name":"a","value":"b"}, {"name":"b","value":"%s"}]}]}`, false},
		"a resource":                        {`{"containers":[{"resources":{"limits":{"cpu":"%s"}}}]}`, true},
		"a resource that is called labels":  {`{"limits":{"labels":"%s"}}`, true},
		"a resource in a nested label":      {`{"labels":{"a":{"cpu":"%s"}}}`, true},
		"a resource after labels":           {`{"labels":{"a":"b"},"limits":{"cpu":"%s"}}`, true},
		"a resource after a variable":       {`{"env":[{"name":"a"}],"limits":{"cpu":"%s"}}`, true},
		"a resource after the value labels": {`{"a":"labels","limits":{"cpu":"%s"}}`, true},
		"a resource after an object with the value labels": {`{"a":"labels"},{"cpu":"%s"}`, true},
		"a resource in a longer field":                     {`{"nodeSelectors":{"cpu":"%s"}}`, true},
		"a resource in an escaped field":                   {`{"\/labels":{"cpu":"%s"}}`, true},
		"the divisor of a variable":                        {`{"env":[{"name":"a","valueFrom":{"resourceFieldRef":{"divisor":"%s"}}}]}`, true},
		"a metric after the labels of another object":      {`{"type":"ADDED","object":{"metadata":{"labels":{"a":"b"}}}}` + "\n" + `{"object":{"value":"%s"}}`, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := priceOf(fmt.Sprintf(test.document, "1e-2000000000")); errors.Is(err, ErrQuantityTooExpensive) != test.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}

// priceOf returns the cost of the numbers in a document.
func priceOf(document string) (all int, err error) {
	var n quantityScanner
	for i := range len(document) {
		cost, err := n.next(document[i])
		if err != nil {
			return 0, err
		}
		all += cost
	}
	return all, nil
}

// A number may arrive in several chunks. The end of an expensive number, and the bytes after it,
// are withheld.
func TestBody_with_an_expensive_quantity_is_ended(t *testing.T) {
	for name, pieces := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
		for _, number := range []string{`"1e-2000000000"`, `1e-2000000000`} {
			t.Run(name+" "+number, func(t *testing.T) {
				body := newTestLimiter(staticServer{body: pieces(strings.NewReader(`{"cpu":` + number + `} `))}).body(t, newRequest(t.Context(), http.MethodGet, ""))
				read, err := io.ReadAll(body)
				if _, again := body.Read(make([]byte, 1)); !errors.Is(err, ErrQuantityTooExpensive) || !errors.Is(again, ErrQuantityTooExpensive) || strings.Contains(string(read), "}") {
					t.Errorf("read %s, then %v, then %v", read, err, again)
				}
			})
		}
	}
}

// The operator parses all quantities that the limits permit in a burst within seconds of processor
// time.
func TestQuantities_within_the_limits_are_cheap_to_parse(t *testing.T) {
	for _, text := range []string{"1e-999", "1e-9999", "1e-99999", "1e-999999", "1e-9999999", "1234567890123456789e999", "1e9999999", strings.Repeat("9", 1000), strings.Repeat("9", 300_000)} {
		t.Run(text[:min(len(text), 30)], func(t *testing.T) {
			document := `"` + text + `",`
			cost, err := priceOf(document)
			if err != nil {
				t.Fatal(err)
			}
			rounds := 0
			took := cputime.Of(func() {
				for begun := time.Now(); time.Since(begun) < 100*time.Millisecond; rounds++ {
					q := resource.MustParse(text)
					if _, err := q.MarshalJSON(); err != nil {
						t.Fatal(err)
					}
				}
			})
			took /= time.Duration(rounds)
			all := time.Duration(min(numbersBurst/max(1, cost), 64<<20/len(document))) * took
			t.Logf("a quantity takes %s, and all in a burst %s", took, all)
			if limit := 15 * time.Second * slowness(); all > limit {
				t.Errorf("all take more than %s", limit)
			}
		})
	}
}

// slowness returns the approximate factor by which the race detector slows down a computation.
func slowness() time.Duration {
	if build, known := debug.ReadBuildInfo(); known && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 10
	}
	return 1
}
