package hub

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestContexts_that_do_not_answer tests that silent clusters are asked at the same time, so that they
// cost the time of one.
func TestContexts_that_do_not_answer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 4 {
			if _, err := listener.Accept(); err != nil {
				return
			}
		}
		cancel()
	}()
	config := clientcmdapi.NewConfig()
	config.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "mine"}
	for _, name := range []string{"a", "b", "c", "d"} {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + listener.Addr().String(), InsecureSkipTLSVerify: true}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: "me"}
	}
	config.Contexts["b-shop"] = &clientcmdapi.Context{Cluster: "b", AuthInfo: "me", Namespace: "shop"}
	file := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	o := &Options{ConfigFlags: genericclioptions.NewConfigFlags(false), Streams: output.Streams{IOStreams: genericiooptions.NewTestIOStreamsDiscard()}}
	all, err := o.Contexts(file)
	if err != nil {
		t.Fatal(err)
	}
	all.patience = wait.Patience
	found := all.Match(ctx)
	var silent []string
	for name, err := range found.Errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v before all were asked", name, err)
		}
		silent = append(silent, name)
	}
	slices.Sort(silent)
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, silent); diff != "" || len(found.ByID) > 0 {
		t.Errorf("found %v; did not answer (-want +got):\n%s", found.ByID, diff)
	}
}

// What is done may notice the end of the time first, and have its own words for it.
func TestWithin_returns_the_error_of_the_context_when_the_time_is_over(t *testing.T) {
	for range 100 {
		_, err := Within(t.Context(), time.Millisecond, func(context.Context) (string, error) {
			<-time.After(time.Millisecond) // the timer of a client
			return "", errors.New("the server does not respond")
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	refused := errors.New("refused")
	if _, err := Within(t.Context(), time.Hour, func(context.Context) (string, error) { return "", refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
}
