package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// profilePart is the length of a CPU profile of an API server. It can only be asked for a profile of a
// fixed length, and a phase has none: so a phase has several, which `go tool pprof` takes together.
const profilePart = 3 * time.Second

// profileServers begins CPU profiles of the hub and of one member, if profiles are asked for. The
// function that it returns ends them and writes the last ones: `go tool pprof B2-1-operator-hub.*.pprof`.
func (f *fleet) profileServers(ctx context.Context, phase string) (end func() error) {
	if f.profiles == "" {
		return func() error { return nil }
	}
	profiled := []*server{f.servers.hub, f.servers.members[0]}
	errs := make([]error, len(profiled))
	ended := make(chan struct{})
	var group sync.WaitGroup
	for i, s := range profiled {
		group.Go(func() { errs[i] = s.profile(ctx, filepath.Join(f.profiles, phase+"-"+s.name), ended) })
	}
	return func() error {
		close(ended)
		group.Wait()
		return errors.Join(errs...)
	}
}

// profile writes CPU profiles, one after another, until a channel is closed.
func (s *server) profile(ctx context.Context, file string, ended <-chan struct{}) error {
	for part := 1; ; part++ {
		content, err := s.get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profilePart.Seconds())))
		if err != nil {
			return fmt.Errorf("profile %s: %w", s.name, err)
		}
		if err := os.WriteFile(fmt.Sprintf("%s.%02d.pprof", file, part), content, 0o600); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		default:
		}
	}
}
