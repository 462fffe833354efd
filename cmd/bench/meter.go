package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// usage is what a phase used. The requests are those of the writer: without those of this process,
// and without those of the API servers themselves.
type usage struct {
	wall         time.Duration
	writer, all  time.Duration            // CPU time of the writer; of the writer, the API servers and etcd
	servers      map[string]time.Duration // CPU time of etcd, of the API servers of the hub and of the members, and of each of several processes of the writer
	taken        time.Duration            // CPU time that other programs used, and the host took away
	peak         int64                    // memory of the writer, in bytes: the sum of the peaks of its processes
	hubPeak      int64                    // memory of the hub
	hub, members counts
	content      contentReads
	stored       stored // by the hub, at the end
	added        stored // of it in the phase
}

// share is the share of the machine that was taken.
func (u usage) share() float64 {
	return u.taken.Seconds() / (u.wall.Seconds() * float64(runtime.NumCPU()))
}

// meter measures a phase. The requests of the meter itself are before its beginning and after its
// end.
type meter struct {
	fleet        *fleet
	begin        time.Time
	cpu          map[*machine.Process]time.Duration
	own          time.Duration
	host         machine.Host
	hub, members counts
	content      contentReads
	stored       stored
}

// measure begins a phase of the processes of a writer. Those of a writer that starts in the phase are
// nil.
func (f *fleet) measure(ctx context.Context, writer []*machine.Process) (*meter, error) {
	m := &meter{fleet: f}
	var err error
	if m.hub, m.members, err = f.readRequests(ctx); err != nil {
		return nil, err
	}
	if m.stored, err = f.servers.readStored(ctx, f.servers.hub.name); err != nil {
		return nil, err
	}
	if m.content, err = f.servers.readContentReads(); err != nil {
		return nil, err
	}
	for _, p := range append([]*machine.Process{f.servers.hub.process}, writer...) {
		if err := p.ResetPeakRSS(); err != nil {
			return nil, err
		}
	}
	m.begin = time.Now()
	m.cpu, m.own, m.host, err = f.readCPU()
	return m, err
}

// readCPU returns the CPU times of the processes, of this process, and of the machine. It leaves out
// the hubs of other writers: what they use at rest counts as the CPU of other programs.
func (f *fleet) readCPU() (map[*machine.Process]time.Duration, time.Duration, machine.Host, error) {
	used := map[*machine.Process]time.Duration{}
	for _, p := range f.group.Running() {
		if isHub(p.Name) && p != f.servers.hub.process {
			continue
		}
		cpu, err := p.CPU()
		if err != nil && !p.HasExited() {
			return nil, 0, machine.Host{}, err
		}
		used[p] = cpu
	}
	own, ownErr := machine.Own()
	host, hostErr := machine.ReadHost()
	return used, own, host, errors.Join(ownErr, hostErr)
}

// end ends the phase. The processes of the writer are those that run now.
func (m *meter) end(ctx context.Context, writer []*machine.Process) (usage, error) {
	u := usage{wall: time.Since(m.begin), servers: map[string]time.Duration{}}
	cpu, own, host, err := m.fleet.readCPU()
	if err != nil {
		return u, err
	}
	for p, used := range cpu {
		used -= m.cpu[p] // a new process has used nothing before
		u.all += used
		switch {
		case slices.Contains(writer, p):
			u.writer += used
			if len(writer) > 1 {
				u.servers[p.Name] += used
			}
		case p == m.fleet.servers.hub.process:
			u.servers["the hub"] += used
		case p.Name == standbyName:
			u.servers[standbyName] += used
		case p.Name == etcdName, p.Name == karmada.GarbageCollectorName:
			u.servers[p.Name] += used
		default:
			u.servers["the members"] += used
		}
	}
	u.taken = max(0, host.Busy+host.Steal-m.host.Busy-m.host.Steal-u.all-(own-m.own))
	for _, p := range writer {
		peak, err := p.PeakRSS()
		if err != nil {
			return u, err
		}
		u.peak += peak
	}
	if u.hubPeak, err = m.fleet.servers.hub.process.PeakRSS(); err != nil {
		return u, err
	}
	hub, members, err := m.fleet.readRequests(ctx)
	if err != nil {
		return u, err
	}
	u.hub, u.members = hub.minus(m.hub), members.minus(m.members)
	content, err := m.fleet.servers.readContentReads()
	if err != nil {
		return u, err
	}
	u.content = content.minus(m.content)
	now, err := m.fleet.servers.readStored(ctx, m.fleet.servers.hub.name)
	u.stored, u.added = now, stored{objects: now.objects - m.stored.objects, events: now.events - m.stored.events, bytes: now.bytes - m.stored.bytes}
	return u, err
}

// readRequests returns the requests to the hub and to all members so far.
func (f *fleet) readRequests(ctx context.Context) (hub, members counts, err error) {
	all := f.servers.all()
	results, errs := make([]counts, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() { results[i], errs[i] = s.readRequests(ctx) })
	}
	group.Wait()
	members = counts{}
	for i, s := range all {
		if s == f.servers.hub {
			hub = results[i]
		} else {
			members = members.plus(results[i])
		}
	}
	return hub, members, errors.Join(errs...)
}
