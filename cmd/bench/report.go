package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/cmd/bench/figures"
	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
)

// goals are the goals of the operator.
func (s settings) goals() []figures.Goal {
	key := func(scenario, name string) figures.Key { return figures.Key{Scenario: scenario, Name: name} }
	naked := func(scenario, name string, limit float64) figures.Goal {
		return figures.Goal{Figure: key(scenario, name), To: key(scenario, name), ToWriter: nakedWriter, Limit: limit}
	}
	nakedDifference := func(scenario, name string, limit float64) figures.Goal {
		return figures.Goal{Figure: key(scenario, name), To: key(scenario, name), ToWriter: nakedWriter, IsDifference: true, Limit: limit}
	}
	perApp := func(scenario, name string, limit float64) figures.Goal {
		return figures.Goal{Figure: key(scenario, name), Per: float64(s.apps), Limit: limit}
	}
	// beyond limits how much more one scenario has of a figure than another one, for each of some.
	beyond := func(scenario, other, name string, per int, limit float64) figures.Goal {
		return figures.Goal{Figure: key(scenario, name), To: key(other, name), IsDifference: true, Per: float64(per), Limit: limit}
	}
	return []figures.Goal{
		naked("B1", tookP50, 1.5),
		naked("B1", tookP99, 2),
		naked("B2", tookAll, 1.5),
		naked("B2", cpuOfAll, 1.7),
		nakedDifference("B2", cpuOfHub, 1.5),
		perApp("B2", hubWrites, 4.5),
		perApp("B2", hubEvents, 3),
		{Figure: key("B2", peakRSS), Limit: 128},
		naked("B3", tookAll, 1.5),
		naked("B3", cpuOfAll, 1.7),
		nakedDifference("B3", cpuOfHub, 1.5),
		perApp("B3", hubWrites, 3.3),
		perApp("B3", hubEvents, 3),
		{Figure: key("B4", tookP50), Limit: 0.05},
		{Figure: key("B4", tookAll), Limit: 1.5},
		{Figure: key("B5", tookAll), Limit: 0.5},
		{Figure: key("B5", extraWrites), Limit: 0},
		{Figure: key("B6", allWrites), Limit: 0},
		{Figure: key("B6", reads), To: key("B6 without AppServices", reads), Limit: 1.1},
		{Figure: key("B7", tookP50), To: key("B1", tookP50), Limit: 1.1},
		{Figure: key("B7", tookP99), To: key("B1", tookP99), Limit: 1.1},
		{Figure: key("B8", residentMemory+" with foreign Deployments"), To: key("B8", residentMemory), Limit: 1.05},
		naked("B9", tookAll, 2),
		naked("B9", cpuOfAll, 2),
		perApp("B9", hubWrites, 3),
		perApp("B9", hubEvents, 3),
		{Figure: key("B11", "new"), To: key("B1", tookP50), Limit: 10},
		{Figure: key("B15", cpuOfWriter), Limit: 0.3},
		{Figure: key("B12", tookAll), To: key("B2", tookAll), Limit: 1.6},
		beyond("B12", "B2", hubWrites, s.apps, 2),
		beyond("B12", "B2", memberWrites, s.apps*s.members, 1),
		{Figure: key("B12", sourceReads), Limit: float64(s.apps)},
		{Figure: key("B13", tookAll), To: key("B3", tookAll), Limit: 2},
		{Figure: key("B13", sourceReads), Limit: 1},
		{Figure: key("B6 "+withSettings, allWrites), Limit: 0},
		{Figure: key("B6 "+withSettings, sourceReads), Limit: 0},
		{Figure: key("B6 "+withSettings, snapshotReads), Limit: 0},
		{Figure: key("B5 "+withSettings, tookAll), Limit: 2},
		{Figure: key("B5 "+withSettings, extraWrites), Limit: 0},
		{Figure: key("B5 "+withSettings, sourceReads), Limit: 0},
		{Figure: key("B5 "+withSettings, snapshotReads), Limit: 0},
	}
}

// document is the JSON file.
type document struct {
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"`
	Base    string    `json:"base,omitempty"` // the commit that it is compared with
	Machine string    `json:"machine"`
	Members int       `json:"members"`
	Apps    int       `json:"apps"`
	Rest    string    `json:"rest"`
	Flags   []string  `json:"operatorFlags,omitempty"`
	Peer    string    `json:"peer,omitempty"` // with its release
	// PeerFlags are the flags of the peer's processes beyond those of its chart, by writer.
	PeerFlags map[string]karmada.Flags `json:"peerFlags,omitempty"`
	Goals     []figures.Result         `json:"goals,omitempty"`
	Samples   figures.Samples          `json:"samples"`
}

// report writes the results to files and prints the tables.
func (r *run) report() error {
	d := r.document()
	d.Goals = r.samples.Judge(r.goals(), operatorWriter)
	return r.publish("bench", d, d.markdown(r.repetitions))
}

// document returns the samples and how they were measured.
func (r *run) document() document {
	d := document{
		At: time.Now().UTC(), Commit: commit(), Base: r.base, Machine: describeMachine(), Members: r.members, Apps: r.apps, Rest: r.rest.String(),
		Flags: r.settings.flags, Samples: r.samples,
	}
	if r.peer != "" {
		d.Peer, d.PeerFlags = r.peer+" "+r.peerVersion, map[string]karmada.Flags{karmadaTunedWriter: karmada.Tuned()}
	}
	return d
}

// publish prints a text, and writes it and a document to files.
func (r *run) publish(name string, d document, text string) error {
	fmt.Println(text)
	content, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(r.out, name)
	return errors.Join(os.WriteFile(file+".json", content, 0o600), os.WriteFile(file+".md", []byte(text), 0o600))
}

func (d document) markdown(repetitions int) string {
	flags := ""
	if len(d.Flags) > 0 {
		flags = " The operator has " + strings.Join(d.Flags, " ") + "."
	}
	return fmt.Sprintf(`%s, commit %s, %s. %d members, %d AppServices at once, %d repetitions.%s

A value is the median and, in parentheses, the range. \* Other programs or the host took a tenth of the
machine or more, in at least half of the repetitions.

%s
%s%s`, d.At.Format("2 January 2006"), d.Commit, d.Machine, d.Members, d.Apps, repetitions, flags,
		d.Samples.GoalTable(d.Goals, operatorWriter), d.Samples.FigureTable(nakedWriter, operatorWriter), d.peerTable())
}

// peerTable returns the table of the operator and a peer, or nothing.
func (d document) peerTable() string {
	if d.Peer == "" {
		return ""
	}
	return fmt.Sprintf("\nThe peer is %s.\n\n%s", d.Peer, d.Samples.PeerTable(operatorWriter, nakedWriter, karmadaPeer, karmadaTunedWriter))
}

// compared are the figures of a comparison of two commits.
func compared() []figures.Key {
	var keys []figures.Key
	for _, scenario := range []struct {
		name    string
		figures []string
	}{
		{"B1", []string{tookP50, tookP99, cpuOfWriter}},
		{"B2", []string{tookAll, cpuOfWriter, cpuOfAll, peakRSS, hubWrites, memberWrites, hubReads, memberReads, hubObjects}},
		{"B3", []string{tookAll, cpuOfWriter, cpuOfAll, hubWrites, memberWrites, hubReads, memberReads, hubObjects}},
		{"B4", []string{tookP50, tookAll}},
		{"B5", []string{tookAll, extraWrites}},
		{"B6", []string{cpuOfWriter, allWrites, reads}},
		{"B7", []string{tookP50}},
		{"B8", []string{residentMemory, "goroutines"}},
		{"B9", []string{tookAll, cpuOfWriter, cpuOfAll, hubWrites}},
		{"B11", []string{"new"}},
	} {
		for _, name := range scenario.figures {
			keys = append(keys, figures.Key{Scenario: scenario.name, Name: name})
		}
	}
	return keys
}

// minRepetitions is the number of repetitions from which a worse figure is a failure. With 4 of
// them, noise alone makes a figure worse once in 70 times; with 1, every second time.
const minRepetitions = 4

// reportChanges prints how the figures of two commits differ, and returns an error if one is worse.
func (r *run) reportChanges() error {
	d, changes := r.document(), r.samples.Compare(compared(), baseWriter, headWriter)
	text := fmt.Sprintf("%s: %s compared with %s, %d repetitions, %s\n\n%s", d.At.Format("2 January 2006"), d.Commit, r.base,
		r.repetitions, d.Machine, figures.ChangeTable(changes))
	if err := r.publish("compare", d, text); err != nil {
		return err
	}
	var worse []string
	for _, c := range changes {
		if c.Worse {
			worse = append(worse, c.Key.String())
		}
	}
	if len(worse) > 0 && r.repetitions < minRepetitions {
		say("with fewer than %d repetitions, noise makes figures worse, too: these are no failure", minRepetitions)
		return nil
	}
	if len(worse) > 0 {
		return fmt.Errorf("worse than %s by more than a tenth, beyond the spread: %s", r.base, strings.Join(worse, ", "))
	}
	return nil
}

// commit returns the commit of the source tree.
func commit() string {
	output, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(output))
}

// describeMachine returns the processor, the memory and the kernel.
func describeMachine() string {
	field := func(file, name string) string {
		content, err := os.ReadFile(file)
		if err != nil {
			return "unknown"
		}
		for line := range strings.Lines(string(content)) {
			if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
		return "unknown"
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		release = []byte("unknown")
	}
	return fmt.Sprintf("%d × %s, memory %s, Linux %s, %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"),
		field("/proc/meminfo", "MemTotal"), strings.TrimSpace(string(release)), runtime.Version())
}
