package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// wanted is what the user wants of an AppService. The zero value is a deleted one.
type wanted struct {
	name     string // a new one after each deletion
	image    string
	replicas int32
	ports    []int32
	clusters []string // sorted
}

func (w wanted) exists() bool { return w.name != "" }

// includes reports whether the user wants the AppService on a cluster.
func (w wanted) includes(cluster string) bool { return slices.Contains(w.clusters, cluster) }

func (w wanted) String() string {
	return fmt.Sprintf("%s: %s, %d replicas, ports %v, on %s", w.name, w.image, w.replicas, w.ports, strings.Join(w.clusters, " "))
}

// kind is a kind of action.
type kind string

const (
	create   kind = "create"
	edit     kind = "edit"
	move     kind = "move"     // another placement
	remove   kind = "delete"   // the AppService
	drift    kind = "drift"    // somebody scales the Deployment on a member
	lose     kind = "lose"     // somebody deletes the Deployment on a member
	cut      kind = "cut"      // requests to a cluster fail
	heal     kind = "heal"     // the cluster is reachable again
	drop     kind = "drop"     // all connections to a cluster end
	rotate   kind = "rotate"   // a member gets another token
	revoke   kind = "revoke"   // as rotate, but the old token ends earlier
	leave    kind = "leave"    // the Secret of a member is deleted
	join     kind = "join"     // the Secret is created again
	cordon   kind = "cordon"   // of a MemberCluster
	uncordon kind = "uncordon" // of a MemberCluster
	kill     kind = "kill"     // SIGKILL of the operator
	stop     kind = "stop"     // SIGTERM of the operator
	start    kind = "start"    // the operator
)

// action is one action of the script.
type action struct {
	at      time.Duration // since the start of the soak
	kind    kind
	app     wanted  // after the action; before it, for a deletion
	cluster string  // if it is about a cluster
	mode    cutMode // of a cut
	slices  bool    // of a start: whether entries are in slices
}

func (a action) String() string {
	text := string(a.kind)
	if a.app.exists() {
		text += " " + a.app.String()
	}
	if a.cluster != "" {
		text += " " + a.cluster
	}
	if a.mode != open {
		text += " " + a.mode.String()
	}
	if a.slices {
		text += " with slices"
	}
	return text
}

// scale is the size of a soak.
type scale struct {
	length  time.Duration
	apps    int
	members []string
	hub     string
}

// steady returns when the last part of the soak begins, in which the operator is not restarted, so
// that its memory can be measured.
func (s scale) steady() time.Duration { return s.length * 2 / 3 }

const (
	// pause is the mean time between two actions.
	pause = time.Second
	// mostCut is the largest number of clusters that are cut at a time.
	mostCut = 2
)

// script chooses random actions. It depends on nothing but the seed and the scale, so the same seed
// gives the same actions.
type script struct {
	scale

	random  *rand.Rand
	created int
	apps    []wanted
	cut     map[string]bool
	left    map[string]bool
	cordons map[string]bool
	running bool
}

// newScript returns a script for a fleet whose members have joined and whose operator runs.
func newScript(seed uint64, s scale) *script {
	return &script{
		scale: s, random: rand.New(rand.NewPCG(seed, 0)), apps: make([]wanted, s.apps),
		cut: map[string]bool{}, left: map[string]bool{}, cordons: map[string]bool{}, running: true,
	}
}

// actions returns the actions of the soak, in the order of their times.
func (s *script) actions() iter.Seq[action] {
	return func(yield func(action) bool) {
		for at := time.Duration(0); ; {
			at += time.Duration(s.random.Int64N(int64(2 * pause)))
			if at >= s.length || !yield(s.next(at)) {
				return
			}
		}
	}
}

// ending returns the actions after which nothing is disturbed any more.
func (s *script) ending() []action {
	var all []action
	for _, cluster := range s.clusters() {
		if s.cut[cluster] {
			all = append(all, action{at: s.length, kind: heal, cluster: cluster})
		}
		if s.left[cluster] {
			all = append(all, action{at: s.length, kind: join, cluster: cluster})
		}
		if s.cordons[cluster] {
			all = append(all, action{at: s.length, kind: uncordon, cluster: cluster})
		}
	}
	if !s.running {
		all = append(all, action{at: s.length, kind: start})
	}
	return all
}

func (s *script) clusters() []string { return append([]string{s.hub}, s.members...) }

// choice is an action that is possible now.
type choice struct {
	kind   kind
	weight int
	of     []string // the clusters to choose from
}

// next chooses an action.
func (s *script) next(at time.Duration) action {
	choices := s.choices(at)
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := s.random.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			return s.do(at, c)
		}
	}
	panic("unreachable: n is less than the sum of the weights")
}

// choices returns what is possible now.
func (s *script) choices(at time.Duration) []choice {
	existing := s.slots(true)
	choices := []choice{
		{kind: create, weight: 3 * len(s.slots(false))},
		{kind: edit, weight: 4 * len(existing)},
		{kind: move, weight: 2 * len(existing)},
		{kind: remove, weight: len(existing) / 2},
		{kind: drift, weight: len(existing) / 3},
		{kind: lose, weight: len(existing) / 4},
		s.onClusters(drop, 2, s.clusters(), nil),
		s.onClusters(heal, 8, s.clusters(), s.isCut),
		s.onClusters(rotate, 3, s.members, s.isJoined),
		s.onClusters(revoke, 1, s.members, s.isJoined),
		s.onClusters(leave, 1, s.members, s.isJoined),
		s.onClusters(join, 8, s.members, func(m string) bool { return s.left[m] }),
		s.onClusters(cordon, 1, s.members, func(m string) bool { return !s.cordons[m] }),
		s.onClusters(uncordon, 6, s.members, func(m string) bool { return s.cordons[m] }),
	}
	if len(s.cut) < mostCut {
		choices = append(choices, s.onClusters(cut, 4, s.clusters(), func(c string) bool { return !s.cut[c] }))
	}
	// An operator that cannot reach the hub ends its start.
	switch {
	case !s.running && s.cut[s.hub] && at >= s.steady():
		return []choice{{kind: heal, weight: 1, of: []string{s.hub}}}
	case !s.running && at >= s.steady():
		return []choice{{kind: start, weight: 1}}
	case !s.running && !s.cut[s.hub]:
		choices = append(choices, choice{kind: start, weight: 30})
	case !s.running:
	case at < s.steady():
		choices = append(choices, choice{kind: kill, weight: 2}, choice{kind: stop, weight: 1})
	}
	return choices
}

func (s *script) isCut(cluster string) bool    { return s.cut[cluster] }
func (s *script) isJoined(cluster string) bool { return !s.left[cluster] }

// onClusters returns a choice of one of the clusters for which is returns true.
func (s *script) onClusters(k kind, weight int, clusters []string, is func(string) bool) choice {
	var of []string
	for _, cluster := range clusters {
		if is == nil || is(cluster) {
			of = append(of, cluster)
		}
	}
	if len(of) == 0 {
		weight = 0
	}
	return choice{kind: k, weight: weight, of: of}
}

// slots returns the indices of the AppServices that exist, or of those that do not.
func (s *script) slots(exist bool) []int {
	var slots []int
	for i, app := range s.apps {
		if app.exists() == exist {
			slots = append(slots, i)
		}
	}
	return slots
}

// do changes the state as the action will.
func (s *script) do(at time.Duration, c choice) action {
	a := action{at: at, kind: c.kind}
	if len(c.of) > 0 {
		a.cluster = pick(s, c.of)
	}
	switch c.kind {
	case create, edit, move, remove, drift, lose:
		s.doApp(&a)
	case cut:
		a.mode = pick(s, []cutMode{refusing, silent})
		s.cut[a.cluster] = true
	case heal:
		delete(s.cut, a.cluster)
	case leave:
		s.left[a.cluster] = true
	case join:
		delete(s.left, a.cluster)
	case cordon:
		s.cordons[a.cluster] = true
	case uncordon:
		delete(s.cordons, a.cluster)
	case kill, stop:
		s.running = false
	case start:
		s.running, a.slices = true, s.random.IntN(3) == 0
	}
	return a
}

func (s *script) doApp(a *action) {
	slot := pick(s, s.slots(a.kind != create))
	app := &s.apps[slot]
	switch a.kind {
	case create:
		s.created++
		*app = wanted{name: fmt.Sprintf("web-%04d", s.created), image: "web:1", replicas: 2, ports: []int32{80}, clusters: s.someMembers()}
	case edit:
		s.editOne(app)
	case move:
		app.clusters = s.someMembers()
	case drift, lose:
		a.cluster = pick(s, app.clusters)
	}
	a.app = *app
	if a.kind == remove {
		*app = wanted{}
	}
}

// editOne changes one field.
func (s *script) editOne(app *wanted) {
	switch s.random.IntN(3) {
	case 0:
		app.image = fmt.Sprintf("web:%d", 1+s.random.IntN(5))
	case 1:
		app.replicas = 1 + s.random.Int32N(3)
	case 2:
		app.ports = pick(s, [][]int32{nil, {80}, {81}, {80, 443}})
	}
}

// someMembers returns one or more members, sorted.
func (s *script) someMembers() []string {
	all := slices.Clone(s.members)
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	some := all[:1+s.random.IntN(len(all))]
	slices.Sort(some)
	return some
}

func pick[T any](s *script, from []T) T { return from[s.random.IntN(len(from))] }
