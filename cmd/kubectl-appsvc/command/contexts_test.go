package command

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestContexts_that_do_not_answer tests that silent clusters cost the time of one.
func TestContexts_that_do_not_answer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
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
	o := &hubOptions{ConfigFlags: genericclioptions.NewConfigFlags(false), streams: genericiooptions.NewTestIOStreamsDiscard()}
	all, err := o.contexts(file)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	found := all.match(t.Context())
	if took := time.Since(start); took > contextTimeout+3*time.Second {
		t.Errorf("it took %s", took)
	}
	var silent []string
	for name := range found.errs {
		silent = append(silent, name)
	}
	slices.Sort(silent)
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, silent); diff != "" || len(found.byID) > 0 {
		t.Errorf("found %v; did not answer (-want +got):\n%s", found.byID, diff)
	}
}
