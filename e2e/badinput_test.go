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
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestRefusedAppService tests that the messages of the CRD's validation say what to change.
func TestRefusedAppService(t *testing.T) {
	f := testFleet(t)
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
			name: "a name that is too long for a Service",
			app:  framework.NewAppService(namespace, strings.Repeat("a", 64)),
			want: "metadata.name must be at most 63 lower-case letters",
		},
		{
			name: "two ports without names",
			app:  framework.NewAppService(namespace, "refused", framework.Ports(80, 81), unnamed),
			want: "each port needs a name when there is more than one",
		},
		{
			name: "an image with spaces",
			app:  framework.NewAppService(namespace, "refused", framework.Image("my web server")),
			want: "image must name a container image, such as registry.example/team/app:1.2, without spaces, control characters and letters that are not ASCII",
		},
		{
			name: "negative replicas",
			app:  framework.NewAppService(namespace, "refused", framework.Replicas(-1)),
			want: "replicas must be zero or more",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := f.Hub.Client.Create(t.Context(), test.app)
			if err == nil {
				f.DeleteApp(t, test.app)
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error that contains %q, got: %v", test.want, err)
			}
		})
	}
}

// TestRefusedSecret tests that an unusable kubeconfig is reported on its MemberCluster, and does
// not affect other members.
func TestRefusedSecret(t *testing.T) {
	f := testFleet(t)
	canary := filepath.Join(t.TempDir(), "canary")
	secrets := []struct {
		name       string
		kubeconfig []byte
		reason     string
	}{
		{name: "malformed", kubeconfig: []byte("not a kubeconfig"), reason: v1alpha1.ReasonKubeconfigMalformed},
		{name: "exec", kubeconfig: withExec(t, f.Members["north"].Kubeconfig(), "touch", canary), reason: v1alpha1.ReasonExecRefused},
	}
	for _, secret := range secrets {
		t.Cleanup(func() { f.removeMember(t, secret.name) })
		if err := environment.JoinWith(t.Context(), f.Hub.Client, secret.name, secret.kubeconfig, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range secrets {
		t.Run("is refused as "+secret.reason, func(t *testing.T) {
			f.Eventually(t, "MemberCluster "+secret.name+" to have the reason "+secret.reason, func(ctx context.Context) error { return f.checkRefused(ctx, secret.name, secret.reason) })
		})
	}

	t.Run("does not affect the other members", func(t *testing.T) {
		app := f.createApp(t, "unaffected")
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("does not run the program of the kubeconfig", func(t *testing.T) {
		if _, err := os.Stat(canary); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("want no file %s, got: %v", canary, err)
		}
	})
}

// checkRefused returns an error unless the member's credentials are refused for that reason and the
// member is not Ready.
func (f *fleet) checkRefused(ctx context.Context, member, reason string) error {
	m := &v1alpha1.MemberCluster{}
	if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
		return err
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
		return fmt.Errorf("the condition CredentialsValid is %+v", c)
	}
	if m.IsReady() {
		return errors.New("the member is Ready")
	}
	return nil
}

// withExec returns a kubeconfig that gets its credentials from a program.
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

// TestUnusableHub tests that the operator exits with an error, and that its last line has the
// reason.
func TestUnusableHub(t *testing.T) {
	f := testFleet(t)
	config, err := clientcmd.Load(f.Hub.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, hub := range config.Clusters {
		hub.Server = "https://127.0.0.1:9" // the port discard, where nothing listens
	}
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, unreachable); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, kubeconfig, want string }{
		{name: "an unreachable hub", kubeconfig: unreachable, want: "127.0.0.1:9"},
		{name: "a kubeconfig that does not exist", kubeconfig: unreachable + ".missing", want: unreachable + ".missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			output, err := exec.CommandContext(ctx, filepath.Join(*binFlag, "fleetwright"), "--kubeconfig="+test.kubeconfig,
				"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0").CombinedOutput()
			if ctx.Err() != nil {
				t.Fatalf("the operator still runs after a minute; its log:\n%s", output)
			}
			if err == nil {
				t.Errorf("the operator exits with code 0")
			}
			if last := environment.Tail(string(output), 1); !strings.Contains(last, test.want) || strings.Contains(string(output), "goroutine ") {
				t.Errorf("want a last line with %s, got:\n%s", test.want, output)
			} else {
				t.Logf("it exits (%v): %s", err, last)
			}
		})
	}
}
