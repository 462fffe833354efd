package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/machine"
)

// fleet is everything that the writers share.
type fleet struct {
	dir      string   // of temporary files
	profiles string   // the directory of profiles, or nothing
	flags    []string // of the operator
	// propagates is set if ConfigMaps travel in a scenario.
	propagates bool
	group      *machine.Group
	servers    *servers
	observer   *observer
	kubelets   *kubelets
}

// writer is what is measured: the operator, the naked writer, or a peer.
type writer interface {
	// apply creates the objects of AppServices on every member.
	apply(ctx context.Context, apps []app) error
	// edit changes the image of AppServices that exist.
	edit(ctx context.Context, apps []app) error
	// remove deletes them.
	remove(ctx context.Context, apps []app) error
	// running returns the processes.
	running() []*machine.Process
}

// reporter is a writer with a hub, where it reports the state of the Deployments.
type reporter interface {
	writer
	// reported returns what an object of the hub reports, and false if it is not an object that reports.
	reported(object client.Object) (report, bool)
	// start starts the processes again, and does not wait.
	start() error
	// kill kills the processes, as a crash does.
	kill() error
}

// report is what the hub reports of an AppService.
type report struct {
	image string // that the user asked for
	// isCurrent is set if the rest is about the present generation.
	isCurrent     bool
	readyMembers  int
	readyReplicas int // the sum of the members
}

// withFleet starts a hub and members while a function runs.
func withFleet(ctx context.Context, s settings, do func(context.Context, *fleet) error) (err error) {
	dir, err := os.MkdirTemp("", "fleetwright-bench-")
	if err != nil {
		return err
	}
	f := &fleet{dir: dir, group: &machine.Group{}, observer: newObserver(), flags: s.flags, propagates: s.has("B12", "B13", "B14")}
	if s.profile {
		f.profiles = s.out
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop() // the watches, before their servers end
		err = errors.Join(err, f.group.End(), os.RemoveAll(dir))
	}()
	say("starting etcd, a hub and %d members", s.members)
	if f.servers, err = startServers(ctx, f.group, s.bin, dir, s.members); err != nil {
		return err
	}
	f.kubelets = startKubelets(ctx, f)
	if err := f.observer.observe(ctx, f.servers); err != nil {
		return err
	}
	return do(ctx, f)
}

// member returns a server by its name.
func (s *servers) member(name string) *server {
	for _, member := range s.members {
		if member.name == name {
			return member
		}
	}
	return s.hub
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
