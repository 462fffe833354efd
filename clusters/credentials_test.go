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
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// badEdits returns edits that break a member's kubeconfig, and the conditions that they lead to.
func badEdits() map[string]struct {
	edit func(*testing.T, *member) edit
	want string // of CredentialsValid
} {
	always := func(e edit) func(*testing.T, *member) edit { return func(*testing.T, *member) edit { return e } }
	return map[string]struct {
		edit func(*testing.T, *member) edit
		want string
	}{
		"a program to run":                  {program, "False ExecRefused"},
		"a file of a token that would do":   {tokenFile, "False FileRefused"},
		"a token that is none":              {always(withToken("canary")), "False Unauthorized"},
		"a token that was revoked":          {revoked, "False Unauthorized"},
		"a token that has ended":            {always(withToken(endedToken)), "False Expired"},
		"the token of a user without roles": {stranger, "Unknown NotVerified"},
		"a server where nobody listens": {
			func(t *testing.T, m *member) edit {
				nobody := newLink(t, m.link.server)
				nobody.turn(t, refuse)
				return withServer(nobody.address)
			},
			"Unknown NotVerified",
		},
		"a server that is silent": {
			func(t *testing.T, m *member) edit {
				nobody := newLink(t, m.link.server)
				nobody.turn(t, silent)
				return withServer(nobody.address)
			},
			"Unknown NotVerified",
		},
		"a server that no member may have": {always(withServer("169.254.169.254:443")), "False ServerRefused"},
		"the CA of another cluster": {
			func(_ *testing.T, m *member) edit {
				return func(cluster *api.Cluster, _ *api.AuthInfo) {
					cluster.CertificateAuthorityData = m.hub.environment.Config.CAData
				}
			},
			"Unknown NotVerified",
		},
	}
}

// endedToken claims to have expired in 2001.
const endedToken = "e30.eyJleHAiOjk4MTE3MzEwNn0.Y2FuYXJ5"

// label returns a member name for the name of a test.
func label(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "-")) }

// program names a program that must not run.
func program(t *testing.T, _ *member) edit {
	directory := t.TempDir()
	ran, program := filepath.Join(directory, "ran"), filepath.Join(directory, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
			t.Error("the program was run")
		}
	})
	return func(_ *api.Cluster, user *api.AuthInfo) {
		user.Exec = &api.ExecConfig{Command: program, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
	}
}

// tokenFile names a pipe that must not be opened.
func tokenFile(t *testing.T, m *member) edit {
	token, _ := m.token(t)
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
			t.Error("the file was read")
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

func revoked(t *testing.T, m *member) edit {
	token, revoke := m.token(t)
	revoke()
	return withToken(token)
}

func stranger(t *testing.T, m *member) edit {
	token, _ := m.newStranger(t, m.operator, m.name+"-stranger").token(t)
	return withToken(token)
}

func TestABadEditKeepsTheConnectionAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, bad := range badEdits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			m := w.newMember(t, w.operator, "edited-"+label(name))
			good := m.kubeconfig(t)
			m.create(t, good)
			e := m.engaged(t, 1, soon)
			m.replace(t, m.kubeconfig(t, bad.edit(t, m)))
			m.shows(t, soon, "Ready True Connected, CredentialsValid "+bad.want)
			m.goesOn(t, e)
			m.replace(t, good)
			m.shows(t, soon, joined)
			m.goesOn(t, e)
		})
	}
	for name, content := range map[string][]byte{"garbage": []byte("canary"), "nothing": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			m := w.newMember(t, w.operator, "edited-"+name)
			good := m.kubeconfig(t)
			m.create(t, good)
			e := m.engaged(t, 1, soon)
			m.replace(t, content)
			m.shows(t, soon, "Ready True Connected, CredentialsValid False KubeconfigMalformed")
			m.goesOn(t, e)
			m.replace(t, good)
			m.shows(t, soon, joined)
			m.goesOn(t, e)
		})
	}
}

func TestABadFirstKubeconfigSaysWhyAndCanBeMended(t *testing.T) {
	t.Parallel()
	refused := func(reason string) string { return "Ready False NoConnection, CredentialsValid False " + reason }
	tests := map[string]struct {
		edit func(*testing.T, *member) edit
		want string
	}{
		"a program to run":                  {program, refused("ExecRefused")},
		"a file of a token that would do":   {tokenFile, refused("FileRefused")},
		"a server that no member may have":  {badEdits()["a server that no member may have"].edit, refused("ServerRefused")},
		"a token that was revoked":          {revoked, "Ready False Unauthorized, CredentialsValid False Unauthorized"},
		"a token that has ended":            {badEdits()["a token that has ended"].edit, "Ready False Unauthorized, CredentialsValid False Expired"},
		"the token of a user without roles": {stranger, "Ready False Forbidden, CredentialsValid Unknown NotVerified"},
		"a server that is silent":           {badEdits()["a server that is silent"].edit, "Ready Unknown Unreachable, CredentialsValid Unknown NotVerified"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			m := w.newMember(t, w.operator, "first-"+label(name))
			m.create(t, m.kubeconfig(t, test.edit(t, m)))
			m.shows(t, soon, test.want)
			m.replace(t, m.kubeconfig(t))
			m.engaged(t, 1, soon)
		})
	}
}

// A rotation changes nothing but the credentials: the same Cluster stays engaged, and no kind is
// listed again.
func TestRotation(t *testing.T) {
	t.Parallel()
	t.Run("a token is swapped in place", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "rotates-token")
		old, revoke := m.token(t)
		e := m.join(t, withToken(old))
		accepted, _ := m.link.count()
		lists := w.member.lists(m.user())
		next, _ := m.token(t)
		m.replace(t, m.kubeconfig(t, withToken(next)))
		m.uses(t, e, m.user(), tokenID(next))
		revoke()
		m.deploy(t, "rotates-token-app")
		e.has(t, "rotates-token-app", soon)
		m.goesOn(t, e)
		m.shows(t, soon, joined)
		if now := w.member.lists(m.user()); !slices.Equal(lists, now) {
			t.Errorf("%s", cmp.Diff(lists, now))
		}
		if now, _ := m.link.count(); now != accepted+1 { // the connection of the trial
			t.Errorf("%d connections were made besides the trial's", now-accepted-1)
		}
	})

	t.Run("a client certificate is swapped in place, on new connections", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.own(t, "fleet-certificate"), "rotates-certificate")
		// The member has no front, because a front cannot pass on a client certificate.
		m.front, m.ca, m.link = nil, w.member.environment.Config.CAData, newLink(t, w.member.address())
		user := "certified"
		m.allow(t, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
		first, second := w.member.as(user), w.member.as(user)
		e := m.join(t, withCertificate(first.CertData, first.KeyData))
		lists, before := w.member.lists(user), w.member.credentials(user)
		// See settles. Without a front, nothing counts the watches.
		eventually(t, soon, func() error {
			if time.Since(e.at) < 3*time.Second {
				return errors.New("too early")
			}
			return nil
		})
		m.replace(t, m.kubeconfig(t, withCertificate(second.CertData, second.KeyData)))
		eventually(t, soon, func() error {
			if after := w.member.credentials(user); len(after) <= len(before) {
				return fmt.Errorf("no other certificate was used than %v", after)
			}
			return nil
		})
		m.uses(t, e, user, w.member.credentials(user)[len(before)])
		m.deploy(t, "rotates-certificate-app")
		e.has(t, "rotates-certificate-app", soon)
		m.goesOn(t, e)
		m.shows(t, soon, joined)
		if now := w.member.lists(user); !slices.Equal(lists, now) {
			t.Errorf("%s", cmp.Diff(lists, now))
		}
	})

	t.Run("another server: the successor is engaged before the old one ends", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "moves")
		first, old := m.join(t), m.link
		m.move(t)
		m.replace(t, m.kubeconfig(t))
		second := m.engaged(t, 2, soon)
		m.ends(t, first, 5*time.Second)
		m.goesOn(t, second)
		if !second.seamless {
			t.Error("the old engagement had ended before")
		}
		eventually(t, 5*time.Second, func() error {
			if _, open := old.count(); open > 0 {
				return fmt.Errorf("%d connections to the old server are open", open)
			}
			return nil
		})
	})

	t.Run("another server that cannot be engaged leaves the old one as it was", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "moves-not")
		e := m.join(t)
		w.operator.engagements.setRefuse(m.name)
		old := m.link
		m.move(t)
		m.replace(t, m.kubeconfig(t))
		m.shows(t, soon, "Ready True Connected, CredentialsValid Unknown NotVerified")
		m.goesOn(t, e)
		m.link = old
		m.replace(t, m.kubeconfig(t))
		m.shows(t, soon, joined)
		m.goesOn(t, e)
		w.operator.engagements.setRefuse("")
	})
}

// uses waits until the reads of an engagement use a credential.
func (m *member) uses(t *testing.T, e engagement, user, credential string) {
	t.Helper()
	eventually(t, soon, func() error {
		if err := e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{}); err != nil {
			return err
		}
		var newest request
		for _, r := range m.world.member.served(user) {
			if r.ObjectRef.Resource == "namespaces" {
				newest = r
			}
		}
		if !slices.Contains(newest.User.Extra[credentialExtra], credential) {
			return fmt.Errorf("%s still uses %v", m.name, newest.User.Extra)
		}
		return nil
	})
}
