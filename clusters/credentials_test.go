package clusters_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// invalidEdits returns edits that break a member's kubeconfig, and the conditions that they lead
// to.
func invalidEdits() map[string]struct {
	edit func(*testing.T, *testMember) kubeconfigEdit
	want string // of CredentialsValid
} {
	always := func(e kubeconfigEdit) func(*testing.T, *testMember) kubeconfigEdit {
		return func(*testing.T, *testMember) kubeconfigEdit { return e }
	}
	return map[string]struct {
		edit func(*testing.T, *testMember) kubeconfigEdit
		want string
	}{
		"a program to run":                  {execProgram, "False ExecRefused"},
		"a file with a valid token":         {tokenFile, "False FileRefused"},
		"an invalid token":                  {always(withToken("canary")), "False Unauthorized"},
		"a revoked token":                   {revokedToken, "False Unauthorized"},
		"an expired token":                  {always(withToken(expiredToken)), "False Expired"},
		"the token of a user without roles": {tokenWithoutRole, "Unknown NotVerified"},
		"a server that refuses connections": {
			func(t *testing.T, m *testMember) kubeconfigEdit {
				link := newNetworkLink(t, m.link.server)
				link.setMode(t, modeRefuse)
				return withServer(link.address)
			},
			"Unknown NotVerified",
		},
		"a server that sends nothing": {
			func(t *testing.T, m *testMember) kubeconfigEdit {
				link := newNetworkLink(t, m.link.server)
				link.setMode(t, modeSilent)
				return withServer(link.address)
			},
			"Unknown NotVerified",
		},
		"a server at a forbidden address": {always(withServer("169.254.169.254:443")), "False ServerRefused"},
		"the CA of another cluster": {
			func(_ *testing.T, m *testMember) kubeconfigEdit {
				return func(cluster *api.Cluster, _ *api.AuthInfo) {
					cluster.CertificateAuthorityData = m.hub.environment.Config.CAData
				}
			},
			"Unknown NotVerified",
		},
	}
}

// expiredToken claims to have expired in 2001.
const expiredToken = "e30.eyJleHAiOjk4MTE3MzEwNn0.Y2FuYXJ5"

// memberName returns the name of a member for the name of a test.
func memberName(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "-")) }

// execProgram returns an edit that names a program. It fails the test if the program runs.
func execProgram(t *testing.T, _ *testMember) kubeconfigEdit {
	directory := t.TempDir()
	ran, program := filepath.Join(directory, "ran"), filepath.Join(directory, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
			t.Error("the operator ran the program")
		}
	})
	return func(_ *api.Cluster, user *api.AuthInfo) {
		user.Exec = &api.ExecConfig{Command: program, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
	}
}

// tokenFile returns an edit that names a pipe. It fails the test if the pipe is opened.
func tokenFile(t *testing.T, m *testMember) kubeconfigEdit {
	token, _ := m.newToken(t)
	pipe := filepath.Join(t.TempDir(), "token")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when a reader opens the pipe
		opened.Store(true)
		if err == nil {
			_, _ = file.WriteString(token)
			_ = file.Close()
		}
	})
	t.Cleanup(func() {
		if opened.Load() {
			t.Error("the operator opened the file")
		}
		reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		writer.Wait()
		_ = reader.Close()
	})
	return func(_ *api.Cluster, user *api.AuthInfo) { user.Token, user.TokenFile = "", pipe }
}

func revokedToken(t *testing.T, m *testMember) kubeconfigEdit {
	token, revoke := m.newToken(t)
	revoke()
	return withToken(token)
}

func tokenWithoutRole(t *testing.T, m *testMember) kubeconfigEdit {
	token, _ := m.newMemberWithoutRole(t, m.operator, m.name+"-stranger").newToken(t)
	return withToken(token)
}

func TestKubeconfig_that_is_edited_badly_keeps_the_connection_and_is_reported(t *testing.T) {
	t.Parallel()
	for name, bad := range invalidEdits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.operator, "edited-"+memberName(name))
			good := m.kubeconfig(t)
			m.createSecret(t, good)
			e := m.waitForEngagement(t, 1)
			m.replaceKubeconfig(t, m.kubeconfig(t, bad.edit(t, m)))
			m.waitForConditions(t, "Ready True Connected, CredentialsValid "+bad.want)
			m.checkContinues(t, e)
			m.replaceKubeconfig(t, good)
			m.waitForConditions(t, summaryConnected)
			m.checkContinues(t, e)
		})
	}
	for name, content := range map[string][]byte{"garbage": []byte("canary"), "an empty value": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.operator, "edited-"+memberName(name))
			good := m.kubeconfig(t)
			m.createSecret(t, good)
			e := m.waitForEngagement(t, 1)
			m.replaceKubeconfig(t, content)
			m.waitForConditions(t, "Ready True Connected, CredentialsValid False KubeconfigMalformed")
			m.checkContinues(t, e)
			m.replaceKubeconfig(t, good)
			m.waitForConditions(t, summaryConnected)
			m.checkContinues(t, e)
		})
	}
}

func TestKubeconfig_that_is_bad_from_the_beginning_is_reported_and_can_be_repaired(t *testing.T) {
	t.Parallel()
	refused := func(reason string) string { return "Ready False NoConnection, CredentialsValid False " + reason }
	tests := map[string]struct {
		edit func(*testing.T, *testMember) kubeconfigEdit
		want string
	}{
		"a program to run":                  {execProgram, refused("ExecRefused")},
		"a file with a valid token":         {tokenFile, refused("FileRefused")},
		"a server at a forbidden address":   {invalidEdits()["a server at a forbidden address"].edit, refused("ServerRefused")},
		"a revoked token":                   {revokedToken, "Ready False Unauthorized, CredentialsValid False Unauthorized"},
		"an expired token":                  {invalidEdits()["an expired token"].edit, "Ready False Unauthorized, CredentialsValid False Expired"},
		"the token of a user without roles": {tokenWithoutRole, "Ready False Forbidden, CredentialsValid Unknown NotVerified"},
		"a server that sends nothing":       {invalidEdits()["a server that sends nothing"].edit, "Ready Unknown Unreachable, CredentialsValid Unknown NotVerified"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.operator, "first-"+memberName(name))
			m.createSecret(t, m.kubeconfig(t, test.edit(t, m)))
			m.waitForConditions(t, test.want)
			m.replaceKubeconfig(t, m.kubeconfig(t))
			m.waitForEngagement(t, 1)
		})
	}
}

// A rotation changes only the credentials: the same Cluster stays engaged, and no kind is listed
// again.
func TestKubeconfig_rotation(t *testing.T) {
	t.Parallel()
	t.Run("replaces a token in place", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "rotates-token")
		old, revoke := m.newToken(t)
		e := m.join(t, withToken(old))
		accepted, _ := m.link.connectionCounts()
		lists := env.member.listRequests(m.user())
		next, _ := m.newToken(t)
		m.replaceKubeconfig(t, m.kubeconfig(t, withToken(next)))
		m.waitForCredential(t, e, m.user(), tokenID(next))
		revoke()
		m.createDeployment(t, "rotates-token-app")
		e.waitForDeployment(t, "rotates-token-app")
		m.checkContinues(t, e)
		m.waitForConditions(t, summaryConnected)
		if now := env.member.listRequests(m.user()); !slices.Equal(lists, now) {
			t.Errorf("the operator listed again (-before +after)\n%s", cmp.Diff(lists, now))
		}
		if now, _ := m.link.connectionCounts(); now != accepted+1 { // the connection that verified the token
			t.Errorf("%d connections were made, want 1", now-accepted)
		}
	})

	t.Run("replaces a client certificate in place, on new connections", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.newOperator(t, "fleet-certificate"), "rotates-certificate")
		// The member has no faultProxy, because a proxy cannot pass on a client certificate.
		m.proxy, m.ca, m.link = nil, env.member.environment.Config.CAData, newNetworkLink(t, env.member.address())
		user := "certified"
		m.grantMemberRole(t, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
		first, second := env.member.userConfig(user), env.member.userConfig(user)
		e := m.join(t, withCertificate(first.CertData, first.KeyData))
		lists, before := env.member.listRequests(user), env.member.credentialIDs(user)
		m.makeWatchesResumable(t, e)
		m.replaceKubeconfig(t, m.kubeconfig(t, withCertificate(second.CertData, second.KeyData)))
		wait.Eventually(t, func() error {
			if after := env.member.credentialIDs(user); len(after) <= len(before) {
				return fmt.Errorf("only the certificates %v were used", after)
			}
			return nil
		})
		m.waitForCredential(t, e, user, env.member.credentialIDs(user)[len(before)])
		m.createDeployment(t, "rotates-certificate-app")
		e.waitForDeployment(t, "rotates-certificate-app")
		m.checkContinues(t, e)
		m.waitForConditions(t, summaryConnected)
		if now := env.member.listRequests(user); !slices.Equal(lists, now) {
			t.Errorf("the operator listed again (-before +after)\n%s", cmp.Diff(lists, now))
		}
	})

	t.Run("to another server engages it before the old engagement ends", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "moves")
		first, old := m.join(t), m.link
		m.changeAddress(t)
		m.replaceKubeconfig(t, m.kubeconfig(t))
		second := m.waitForEngagement(t, 2)
		m.waitForEnd(t, first)
		m.checkContinues(t, second)
		if !second.overlapping {
			t.Error("the old engagement ended first")
		}
		wait.Eventually(t, func() error {
			if _, open := old.connectionCounts(); open > 0 {
				return fmt.Errorf("%d connections to the old server are open", open)
			}
			return nil
		})
	})

	t.Run("to another server that cannot be engaged keeps the old engagement", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "moves-not")
		e := m.join(t)
		env.operator.recorder.setRefuse(m.name)
		old := m.link
		m.changeAddress(t)
		m.replaceKubeconfig(t, m.kubeconfig(t))
		m.waitForConditions(t, "Ready True Connected, CredentialsValid Unknown NotVerified")
		m.checkContinues(t, e)
		m.link = old
		m.replaceKubeconfig(t, m.kubeconfig(t))
		m.waitForConditions(t, summaryConnected)
		m.checkContinues(t, e)
		env.operator.recorder.setRefuse("")
	})
}

// waitForCredential waits until the reads of an engagement use a credential. It reads a Deployment,
// because the operator verifies a credential by reading the namespace kube-system before the
// engagement uses it.
func (m *testMember) waitForCredential(t *testing.T, e engagement, user, credential string) {
	t.Helper()
	name := "read-by-" + m.name
	wait.Eventually(t, func() error {
		if err := e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("read a Deployment that does not exist: %v", err) //nolint:errorlint // There may be no error.
		}
		var newest request
		for _, r := range m.testEnv.member.requests(user) {
			if r.ObjectRef.Name == name {
				newest = r
			}
		}
		if !slices.Contains(newest.User.Extra[credentialIDExtra], credential) {
			return fmt.Errorf("%s still uses %v", m.name, newest.User.Extra)
		}
		return nil
	})
}
