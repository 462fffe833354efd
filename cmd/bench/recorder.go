package main

import (
	"maps"
	"slices"

	"github.com/fleetwright/fleetwright/cmd/bench/figures"
)

// The names of figures that several scenarios have.
const (
	tookP50      = "p50"
	tookP99      = "p99"
	tookAll      = "all"
	cpuOfWriter  = "CPU of the writer"
	cpuOfAll     = "CPU of everything"
	cpuOfHub     = "CPU of the hub"
	cpuTaken     = "CPU of other programs"
	peakRSS      = "peak RSS of the writer"
	writesTo     = "writes to "
	readsFrom    = "GET and LIST requests to "
	hubWrites    = writesTo + "the hub"
	memberWrites = writesTo + "members"
	hubEvents    = eventVerb + " requests to the hub"
	hubReads     = readsFrom + "the hub"
	memberReads  = readsFrom + "members"
	allWrites    = writesTo + "the hub and members"
	extraWrites  = "writes beyond those of the edit"
	reads        = "GET and LIST requests"
	hubObjects   = "objects added to the hub"
	hubPeakRSS   = "peak RSS of the hub"
	appBytes     = "bytes of an AppService in etcd"
	// Of ConfigMaps and Secrets on the hub.
	sourceReads   = "GET requests for sources"
	snapshotReads = "GET requests for snapshots"
)

// recorder records the figures of a turn. Each sample says whose turn it was.
type recorder struct {
	writerName string
	repetition int
	suffix     string // of the scenario
	samples    figures.Samples
}

// add records a figure. The usage is that of the phase in which it was measured.
func (r *recorder) add(scenario, name, unit string, value float64, u usage) {
	r.samples = append(r.samples, figures.Sample{
		Key: figures.Key{Scenario: scenario + r.suffix, Name: name}, Writer: r.writerName, Repetition: r.repetition,
		Value: value, Unit: unit, Taken: u.share(),
	})
}

// addTimes records the seconds that each of several requests took.
func (r *recorder) addTimes(scenario string, took []float64, u usage) {
	slices.Sort(took)
	r.add(scenario, tookP50, "s", figures.Percentile(took, 0.5), u)
	r.add(scenario, tookP99, "s", figures.Percentile(took, 0.99), u)
}

// addUsage records the use of resources.
func (r *recorder) addUsage(scenario string, u usage) {
	r.add(scenario, cpuOfWriter, "s", u.writer.Seconds(), u)
	r.add(scenario, cpuOfAll, "s", u.all.Seconds(), u)
	for _, name := range slices.Sorted(maps.Keys(u.servers)) {
		r.add(scenario, "CPU of "+name, "s", u.servers[name].Seconds(), u)
	}
	r.add(scenario, peakRSS, "MiB", float64(u.peak)/(1<<20), u)
	r.add(scenario, hubPeakRSS, "MiB", float64(u.hubPeak)/(1<<20), u)
	r.add(scenario, cpuTaken, "s", u.taken.Seconds(), u)
	r.addRequests(scenario, "the hub", u.hub, u)
	r.addRequests(scenario, "members", u.members, u)
	r.add(scenario, sourceReads, "", float64(u.content.sources), u)
	r.add(scenario, snapshotReads, "", float64(u.content.snapshots), u)
}

// addRequests records requests: writes, reads, Events, and every verb.
func (r *recorder) addRequests(scenario, where string, c counts, u usage) {
	r.add(scenario, writesTo+where, "", float64(c.writes()), u)
	r.add(scenario, readsFrom+where, "", float64(c.reads()), u)
	for _, verb := range slices.Concat([]string{"GET", "LIST", "WATCH", eventVerb}, writeVerbs) {
		r.add(scenario, verb+" requests to "+where, "", float64(c[verb]), u)
	}
}
