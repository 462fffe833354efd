package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// What the schema refuses, it refuses in words.
func TestRefusedAppService(t *testing.T) {
	f := theFleet
	unnamed := func(s *v1alpha1.AppServiceSpec) {
		for i := range s.Ports {
			s.Ports[i].Name = ""
		}
	}
	tests := []struct {
		name string
		app  *v1alpha1.AppService
		want string
	}{
		{
			name: "a name that no Service can bear",
			app:  appService(strings.Repeat("a", 64)),
			want: "metadata.name must be at most 63 lower-case letters",
		},
		{
			name: "two ports without names",
			app:  appService("refused", ports(80, 81), unnamed),
			want: "each port needs a name when there is more than one",
		},
		{
			name: "an image with spaces",
			app:  appService("refused", image("my web server")),
			want: "image must name a container image, such as registry.example/team/app:1.2, without spaces",
		},
		{
			name: "less than no replicas",
			app:  appService("refused", replicas(-1)),
			want: "replicas must be zero or more",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := f.hub.api.Create(t.Context(), test.app)
			if err == nil {
				f.remove(t, test.app)
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want a refusal that says %q, got: %v", test.want, err)
			}
		})
	}
}

// Secrets that are no good show it on their MemberClusters, and do no harm.
func TestRefusedSecret(t *testing.T) {
	f := theFleet
	canary := filepath.Join(t.TempDir(), "canary")
	secrets := []struct {
		name       string
		kubeconfig []byte
		reason     string
	}{
		{name: "scribble", kubeconfig: []byte("this is no kubeconfig"), reason: v1alpha1.ReasonKubeconfigMalformed},
		{name: "trojan", kubeconfig: withExec(t, f.members["north"].Kubeconfig(), "touch", canary), reason: v1alpha1.ReasonExecRefused},
	}
	for _, secret := range secrets {
		t.Cleanup(func() { f.leave(t, secret.name) })
		if err := environment.JoinWith(t.Context(), f.hub.api, secret.name, secret.kubeconfig, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range secrets {
		t.Run("is refused as "+secret.reason, func(t *testing.T) {
			eventually(t, "MemberCluster "+secret.name+" to say "+secret.reason, func() error { return f.refuses(secret.name, secret.reason) })
		})
	}

	t.Run("and the other members take a new AppService", func(t *testing.T) {
		app := f.declare(t, "unharmed")
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("and the program that it names was not run", func(t *testing.T) {
		if _, err := os.Stat(canary); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("want no file %s, got: %v", canary, err)
		}
	})
}

// refuses is nil when the member's credentials are refused for that reason, and it is not Ready.
func (f *fleet) refuses(member, reason string) error {
	m := &v1alpha1.MemberCluster{}
	if err := f.hub.api.Get(background, client.ObjectKey{Name: member}, m); err != nil {
		return err
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
		return fmt.Errorf("its condition is %+v", c)
	}
	if m.IsReady() {
		return errors.New("it is Ready")
	}
	return nil
}

// withExec is a kubeconfig that would work, but for credentials that a program is to bring.
func withExec(t *testing.T, kubeconfig []byte, command string, args ...string) []byte {
	t.Helper()
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion:      "client.authentication.k8s.io/v1",
			Command:         command,
			Args:            args,
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The operator cannot begin: it ends, and its last line says why.
func TestUnusableHub(t *testing.T) {
	f := theFleet
	config, err := clientcmd.Load(f.hub.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, hub := range config.Clusters {
		hub.Server = "https://127.0.0.1:9" // The port called discard, where nobody listens.
	}
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, unreachable); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, kubeconfig, want string }{
		{name: "a hub that cannot be reached", kubeconfig: unreachable, want: "127.0.0.1:9"},
		{name: "a kubeconfig that does not exist", kubeconfig: unreachable + ".missing", want: unreachable + ".missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			output, err := exec.CommandContext(ctx, program("fleetwright"), "--kubeconfig="+test.kubeconfig,
				"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0").CombinedOutput()
			if ctx.Err() != nil {
				t.Fatalf("it goes on after a minute, and says:\n%s", output)
			}
			if err == nil {
				t.Errorf("it exits with 0")
			}
			if last := environment.Tail(string(output), 1); !strings.Contains(last, test.want) || strings.Contains(string(output), "goroutine ") {
				t.Errorf("want a last line that names %s, got:\n%s", test.want, output)
			} else {
				t.Logf("it exits (%v) and says: %s", err, last)
			}
		})
	}
}
