package hub

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestNameOf_accepts_what_kubectl_prints(t *testing.T) {
	for kind, texts := range map[*Kind][]string{
		&Apps:     {"web", "appsvc/web", "appservice/web", "appservices/web", "AppService/web", "appservice.fleetwright.dev/web", "appservices.v1alpha1.fleetwright.dev/web"},
		&Clusters: {"web", "mc/web", "membercluster/web", "memberclusters/web", "membercluster.fleetwright.dev/web"},
	} {
		for _, text := range texts {
			if got, err := kind.NameOf(text); got != "web" || err != nil {
				t.Errorf("%s: got %q, %v", text, got, err)
			}
		}
	}
	for text, want := range map[string]string{
		"deployment/web":          `"deployment/web" is not the name of an AppService: "deployment" is another kind. Use NAME or appservice/NAME`,
		"membercluster/web":       "is another kind",
		"shop/web":                "is another kind",
		"appservice.example/web":  "is another kind",
		"appservice/":             "use NAME or appservice/NAME",
		"appservice/shop/web":     "use NAME or appservice/NAME",
		"appservice.apps/web/api": "is another kind",
	} {
		if got, err := Apps.NameOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestNames_are_the_values_of_flags(t *testing.T) {
	var names []string
	contexts := map[string]string{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringSliceVar(&names, "cluster", nil, "")
	flags.StringToStringVar(&contexts, "member-context", nil, "")
	for _, name := range []string{"cluster", "member-context"} {
		flag := flags.Lookup(name)
		flag.Value = Clusters.Names(flag.Value)
	}
	if err := flags.Parse([]string{"--cluster=mc/east,north", "--cluster", "membercluster.fleetwright.dev/south", "--member-context=mc/east=arn:aws/east,north=n"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"east", "north", "south"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"east": "arn:aws/east", "north": "n"}, contexts); diff != "" {
		t.Error(diff)
	}
	if err := flags.Parse([]string{"--cluster=appsvc/web"}); err == nil || !strings.Contains(err.Error(), "is not the name of a MemberCluster") {
		t.Errorf("the error is %v", err)
	}
}

func TestArguments_name_what_is_missing(t *testing.T) {
	why := &cobra.Command{Use: "why APP [CLUSTER]"}
	for name, test := range map[string]struct {
		expected []Argument
		args     []string
		want     string
	}{
		"nothing":              {[]Argument{App, Cluster.Optional()}, nil, "APP is missing: why APP [CLUSTER]"},
		"the optional one":     {[]Argument{App, Cluster.Optional()}, []string{"web"}, ""},
		"all":                  {[]Argument{App, Cluster.Optional()}, []string{"appsvc/web", "mc/east"}, ""},
		"one too many":         {[]Argument{App, Cluster.Optional()}, []string{"web", "east", "west"}, `"west" is one argument too many: why APP [CLUSTER]`},
		"none of many":         {[]Argument{Cluster.Repeated()}, nil, "CLUSTER is missing: why APP [CLUSTER]"},
		"many":                 {[]Argument{Cluster.Repeated()}, []string{"east", "mc/west"}, ""},
		"none of any":          {[]Argument{Cluster.Optional().Repeated()}, nil, ""},
		"another kind":         {[]Argument{App, Cluster}, []string{"web", "appsvc/east"}, "is another kind"},
		"a context with slash": {[]Argument{ContextName}, []string{"arn:aws/east"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Arguments(test.expected...)(why, test.args); err != nil {
				got = err.Error()
			}
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, arg := range test.args {
				if test.want == "" && strings.Contains(arg, "/") && test.expected[0].kind != nil {
					t.Errorf("the command gets %s", arg)
				}
			}
		})
	}
}
