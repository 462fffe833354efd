package command

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestHubFlags_lead_to_the_same_hub_and_hold_no_token(t *testing.T) {
	flags := pflag.NewFlagSet("ui", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(flags)
	if err := flags.Parse([]string{"--kubeconfig=other.yaml", "--as=anna", "--as-group=shop", "--as-group=web", "--token=canary", "-n=shop"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"--context=prod", "--as=anna", "--as-group=shop", "--as-group=web", "--kubeconfig=other.yaml"}
	if got := hubFlags(flags, "prod"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
