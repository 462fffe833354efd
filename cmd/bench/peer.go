package main

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

// The writers of -peer karmada: Karmada with the flags of its chart, and with more of them.
const (
	karmadaPeer        = "karmada"
	karmadaTunedWriter = "karmada-tuned"
)

// peerScenarios are the scenarios of a peer.
var peerScenarios = []string{"B1", "B2", "B3", "B4", "B5", "B6", "B9"}

// isPeer reports whether a name is that of a peer.
func isPeer(writerName string) bool {
	return writerName == karmadaPeer || writerName == karmadaTunedWriter
}

// addPeer starts a peer, and returns its writers.
func (f *fleet) addPeer(ctx context.Context, programs karmada.Programs) ([]contender, error) {
	p, err := f.startPeer(ctx, programs)
	if err != nil {
		return nil, err
	}
	return []contender{{name: karmadaPeer, peer: p}, {name: karmadaTunedWriter, peer: p, flags: karmada.Tuned()}}, nil
}

// peer is an installation of Karmada with a hub of its own. It has the members of the other writers.
type peer struct {
	hub          *server
	installation *karmada.Installation
	hasMembers   bool
}

// startPeer starts the API server of Karmada's hub, and installs Karmada there. Its processes start
// in its turns.
func (f *fleet) startPeer(ctx context.Context, programs karmada.Programs) (*peer, error) {
	say("installing Karmada %s", programs.Version)
	s := f.servers
	installation, err := karmada.Prepare(programs, karmada.Place{
		Dir: filepath.Join(f.dir, karmadaPeer), Bin: s.bin, Group: f.group, Etcd: s.etcd, Prefix: "/" + karmadaHubName,
	})
	if err != nil {
		return nil, err
	}
	ports, err := kwok.FreePorts(f.dir, 1)
	if err != nil {
		return nil, err
	}
	hub, err := startServer(f.group, s.bin, s.dir, karmadaHubName, s.etcd, ports[0], s.shared, installation.HubFlags()...)
	if err != nil {
		return nil, err
	}
	if err := hub.awaitReady(ctx); err != nil {
		return nil, err
	}
	if err := installation.Install(ctx, hub.api, hub.address, s.shared.ca); err != nil {
		return nil, err
	}
	if err := hub.api.Create(ctx, newNamespace()); err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	templates := &unstructured.UnstructuredList{}
	templates.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeploymentList"})
	return &peer{hub: hub, installation: installation}, f.observer.watch(ctx, hub, templates)
}

// joinMembers joins the members, once.
func (p *peer) joinMembers(ctx context.Context, s *servers) error {
	if p.hasMembers {
		return nil
	}
	for _, member := range s.members {
		m := karmada.Member{Name: member.name, Address: member.address, CA: s.shared.ca, API: member.api}
		if err := karmada.Join(ctx, p.hub.api, m); err != nil {
			return err
		}
	}
	p.hasMembers = true
	return nil
}

// withHub returns the same fleet with another hub.
func (f *fleet) withHub(hub *server) *fleet {
	other, servers := *f, *f.servers
	servers.hub, other.servers = hub, &servers
	return &other
}
