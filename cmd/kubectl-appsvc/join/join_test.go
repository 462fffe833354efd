package join

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJoin_validates_its_flags(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*joinOptions)
		given  string
		want   string
	}{
		"the defaults":                    {change: func(*joinOptions) {}},
		"no labels":                       {change: func(j *joinOptions) { j.labels = nil }, given: flagLabels},
		"namespaces":                      {change: func(j *joinOptions) { j.namespaces = []string{"web", "shop"} }, given: flagNamespaces},
		"no namespaces":                   {change: func(j *joinOptions) { j.namespaces = []string{} }, given: flagNamespaces, want: "--namespaces is empty: name one, or '*' for all namespaces"},
		"an empty namespace":              {change: func(j *joinOptions) { j.namespaces = []string{"shop", ""} }, given: flagNamespaces, want: `--namespaces has "", which is not the name`},
		"all namespaces and one":          {change: func(j *joinOptions) { j.namespaces = []string{"*", "shop"} }, given: flagNamespaces, want: "--namespaces has '*' and a name"},
		"the longest lifetime":            {change: func(j *joinOptions) { j.duration = maxDuration }},
		"a longer lifetime":               {change: func(j *joinOptions) { j.duration = maxDuration + time.Second }, want: "the longest lifetime of a token is 1193046h28m16s"},
		"a shorter lifetime":              {change: func(j *joinOptions) { j.duration = minDuration - time.Second }, want: "the shortest lifetime of a token is 10m0s"},
		"no wait":                         {change: func(j *joinOptions) { j.timeout = 0 }},
		"a negative time to wait":         {change: func(j *joinOptions) { j.timeout = -time.Second }, want: "--timeout is -1s: it must not be negative; 0 does not wait"},
		"a label":                         {change: func(j *joinOptions) { j.labels = map[string]string{"example.com/region": "eu"} }},
		"a label with a space":            {change: func(j *joinOptions) { j.labels = map[string]string{"region": "e u"} }, want: "which is not a label"},
		"the label that selects a Secret": {change: func(j *joinOptions) { j.labels = map[string]string{secretLabel: "false"} }, want: secretLabel + ", which join sets itself"},
		"a label of a tool":               {change: func(j *joinOptions) { j.labels = map[string]string{"helm.sh/chart": "web"} }, want: "helm.sh/chart, which the MemberCluster would not get"},
	} {
		t.Run(name, func(t *testing.T) {
			j := &joinOptions{duration: time.Hour, timeout: time.Minute, isGiven: func(flag string) bool { return flag == test.given }}
			test.change(j)
			err := j.validate()
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if !slices.IsSorted(j.namespaces) && err == nil {
				t.Errorf("%q is not sorted", j.namespaces)
			}
		})
	}
}

func TestJoin_says_which_steps_are_done(t *testing.T) {
	steps := []joinStep{{what: "one"}, {what: "two"}, {what: "three"}}
	for want, test := range map[string]struct {
		failed    int
		isPartial bool
	}{
		"refused. Done: nothing. Not done: one, two, three. The command can be repeated":                               {0, false},
		"refused. Done: a part of one (see above). Not done: the rest of one, two, three. The command can be repeated": {0, true},
		"refused. Done: one, two. Not done: three. The command can be repeated":                                        {2, false},
	} {
		if got := unfinished(context.Background(), steps, test.failed, test.isPartial, errors.New("refused")); got.Error() != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
