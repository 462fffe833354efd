package rollout_test

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// simulation is a fleet of simulated members. They carry out their entries, and are observed as
// delivery observes them.
type simulation struct {
	app     *v1alpha1.AppService
	members map[string]*simulatedMember
	seen    map[string]observation.Observation
	now     metav1.Time
	// sliceThreshold is the number of entries above which they are in AppServiceSlices; 0 is the
	// default.
	sliceThreshold int
}

// simulatedMember is a simulated member cluster and its actual workload.
type simulatedMember struct {
	member     v1alpha1.MemberCluster
	joined     bool // a MemberCluster exists
	objects    bool // the member has objects of the AppService
	replicas   int32
	readyPods  int32
	refuses    bool // the member refuses objects
	crashLoops bool // no pod becomes ready
}

// notJoinedName is a cluster that a placement may name before the cluster has joined.
const notJoinedName = "future"

func newSimulation(clusters int) *simulation {
	w := &simulation{app: NewInput().App, members: map[string]*simulatedMember{}, seen: map[string]observation.Observation{}, now: Now}
	w.app.Generation = 1
	w.app.Spec.Replicas = new(int32(2))
	for i := range clusters {
		w.addMember(ClusterName(i)).joined = true
	}
	w.addMember(notJoinedName)
	return w
}

func (w *simulation) addMember(name string) *simulatedMember {
	s := &simulatedMember{member: *NewMember(name, metav1.ConditionTrue)}
	s.member.Labels = map[string]string{"region": "eu", "name": name}
	s.member.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	w.members[name] = s
	return s
}

func (w *simulation) names() []string { return slices.Sorted(maps.Keys(w.members)) }

func (w *simulation) setReady(s *simulatedMember, ready bool) {
	if s.member.IsReady() == ready {
		return
	}
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	s.member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: w.now}}
}

func (w *simulation) advance(d time.Duration) { w.now = metav1.NewTime(w.now.Add(d)) }

// input returns the input that the planner would gather.
func (w *simulation) input() rollout.Input {
	in := rollout.Input{App: w.app, Members: map[string]*v1alpha1.MemberCluster{}, Observations: maps.Clone(w.seen), Now: w.now}
	var members []v1alpha1.MemberCluster
	for _, name := range w.names() {
		if s := w.members[name]; s.joined {
			in.Members[name] = s.member.DeepCopy()
			members = append(members, *in.Members[name])
		}
	}
	in.SliceThreshold = w.sliceThreshold
	in = in.Recover()
	in.Plan, in.PlanError = placement.Decide(in.App, members)
	return in
}

// write stores a status and drops the observations of entries that ended, as the planner does.
func (w *simulation) write(status v1alpha1.AppServiceStatus) {
	for _, entry := range w.app.Status.Clusters {
		if status.Cluster(entry.Name) == nil {
			delete(w.seen, entry.Name)
		}
	}
	w.app = w.app.DeepCopy()
	w.app.Status = status
}

// edit changes the spec.
func (w *simulation) edit(change func(*v1alpha1.AppServiceSpec)) {
	w.app = w.app.DeepCopy()
	change(&w.app.Spec)
	w.app.Generation++
}

func (w *simulation) annotate(key, value string) {
	w.app = w.app.DeepCopy()
	if value == "" {
		delete(w.app.Annotations, key)
		return
	}
	metav1.SetMetaDataAnnotation(&w.app.ObjectMeta, key, value)
}

// deliver makes one member carry out its entry, and reports its state.
func (w *simulation) deliver(name string) {
	s, entry := w.members[name], w.app.Status.Cluster(name)
	suspended := w.app.Spec.Suspend && w.app.DeletionTimestamp.IsZero()
	switch {
	case !s.joined || !s.member.IsReady():
		delete(w.seen, name)
	case entry == nil || entry.Phase == v1alpha1.ClusterDetached:
		delete(w.seen, name)
		if s.objects {
			w.seen[name] = observation.Observation{UID: w.app.UID, Found: true, Planned: s.replicas}
		}
	case entry.Phase == v1alpha1.ClusterRemoving && !suspended:
		w.remove(s, entry)
	case !w.app.DeletionTimestamp.IsZero() || suspended || entry.Generation != w.app.Generation:
		w.observe(s, entry, entry.ObservedGeneration)
	default:
		w.maintain(s, entry)
	}
}

func (w *simulation) remove(s *simulatedMember, entry *v1alpha1.ClusterStatus) {
	seen := observation.Observation{UID: w.app.UID, Generation: entry.Generation, Planned: entry.Replicas, Phase: v1alpha1.ClusterRemoving}
	if s.objects {
		s.objects, s.replicas, s.readyPods = false, 0, 0
		seen.Message = "waiting for the member to finish deleting: Deployment"
	} else {
		seen.GoneSince = entry.LastTransitionTime
	}
	w.seen[entry.Name] = seen
}

func (w *simulation) maintain(s *simulatedMember, entry *v1alpha1.ClusterStatus) {
	if s.refuses {
		w.seen[entry.Name] = observation.Observation{UID: w.app.UID, Generation: entry.Generation, Planned: entry.Replicas, Phase: v1alpha1.ClusterFailed,
			Reason: v1alpha1.ReasonRefused, Message: "quota", Replicas: s.replicas, ReadyReplicas: s.readyPods}
		return
	}
	if entry.MaxReplicas == 0 || !s.objects {
		s.replicas = entry.Replicas
	} else {
		s.replicas = min(max(s.replicas, entry.MinReplicas), entry.MaxReplicas)
	}
	s.objects, s.readyPods = true, min(s.readyPods, s.replicas)
	w.observe(s, entry, w.app.Generation)
}

func (w *simulation) observe(s *simulatedMember, entry *v1alpha1.ClusterStatus, applied int64) {
	seen := observation.Observation{UID: w.app.UID, Generation: entry.Generation, Planned: entry.Replicas, Applied: applied,
		Phase: v1alpha1.ClusterReady, Replicas: s.replicas, ReadyReplicas: s.readyPods}
	if !s.objects || s.readyPods < s.replicas {
		seen.Phase, seen.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut
	}
	w.seen[entry.Name] = seen
}

// start makes at most this many more pods of a member ready.
func (s *simulatedMember) start(pods int32) {
	if s.objects && !s.crashLoops {
		s.readyPods = min(s.replicas, s.readyPods+pods)
	}
}

// action is one event in the simulation.
type action struct {
	name string
	do   func(*rapid.T, *simulation, *simulatedMember)
}

// memberActions are the actions of members and their administrators.
var memberActions = []action{
	{"dies", func(_ *rapid.T, w *simulation, s *simulatedMember) { w.setReady(s, false) }},
	{"returns", func(_ *rapid.T, w *simulation, s *simulatedMember) { w.setReady(s, true) }},
	{"detaches", func(_ *rapid.T, _ *simulation, s *simulatedMember) { s.joined = false }},
	{"joins", func(_ *rapid.T, _ *simulation, s *simulatedMember) { s.joined = true }},
	{"refuses", func(_ *rapid.T, _ *simulation, s *simulatedMember) { s.refuses = true }},
	{"accepts again", func(_ *rapid.T, _ *simulation, s *simulatedMember) { s.refuses = false }},
	{"crash loops", func(_ *rapid.T, _ *simulation, s *simulatedMember) { s.crashLoops, s.readyPods = true, 0 }},
	{"heals", func(_ *rapid.T, _ *simulation, s *simulatedMember) { s.crashLoops = false }},
	{"is relabelled", func(t *rapid.T, _ *simulation, s *simulatedMember) {
		s.member.Labels["region"] = rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")
	}},
	{"is cordoned", func(_ *rapid.T, _ *simulation, s *simulatedMember) {
		s.member.Spec.Unschedulable = !s.member.Spec.Unschedulable
	}},
	{"is tainted", func(t *rapid.T, _ *simulation, s *simulatedMember) {
		s.member.Spec.Taints = rapid.SampledFrom([][]v1alpha1.Taint{nil, {{Key: "drain", Effect: v1alpha1.TaintNoExecute}}, {{Key: "new", Effect: v1alpha1.TaintNoSchedule}}}).Draw(t, "taints")
	}},
	{"is resized", func(t *rapid.T, _ *simulation, s *simulatedMember) {
		cpu := rapid.SampledFrom([]string{"0", "8", "8500m", "9", "16"}).Draw(t, "cpu")
		s.member.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}},
}

// edits are the changes that the owner of the AppService makes to its spec.
var edits = []action{
	{"limit", func(t *rapid.T, w *simulation, _ *simulatedMember) {
		limit := rapid.SampledFrom([]*int32{nil, new(int32(1)), new(int32(2)), new(int32(3)), new(int32(5))}).Draw(t, "limit")
		w.editPlacement(func(p *v1alpha1.Placement) { p.Limit = limit })
	}},
	{"selector", func(t *rapid.T, w *simulation, _ *simulatedMember) {
		selector := rapid.SampledFrom([]*v1alpha1.ClusterSelector{nil, inRegion("eu"), inRegion("eu"), inRegion("nowhere")}).Draw(t, "selector")
		w.editPlacement(func(p *v1alpha1.Placement) { p.ClusterSelector = selector })
	}},
	{"names", func(t *rapid.T, w *simulation, _ *simulatedMember) {
		names := rapid.SliceOfDistinct(rapid.SampledFrom(w.names()), rapid.ID).Draw(t, "names")
		w.editPlacement(func(p *v1alpha1.Placement) { p.ClusterNames = names })
	}},
	{"replicas", func(t *rapid.T, w *simulation, _ *simulatedMember) {
		replicas := rapid.Int32Range(0, 9).Draw(t, "replicas")
		w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = &replicas })
	}},
	{"policy", func(t *rapid.T, w *simulation, s *simulatedMember) {
		weight := rapid.Int32Range(1, 4).Draw(t, "weight")
		policy := rapid.SampledFrom([]*v1alpha1.ReplicaPolicy{
			nil,
			{Type: v1alpha1.ReplicasDivided},
			{Type: v1alpha1.ReplicasDivided, Weights: v1alpha1.WeightsAllocatable},
			{Type: v1alpha1.ReplicasDivided, Rules: []v1alpha1.ReplicaRule{{
				Name: "heavy", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: inRegion("eu")}, Weight: &weight,
			}}},
		}).Draw(t, "policy")
		w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.ReplicaPolicy = policy })
	}},
	{"autoscaling", func(t *rapid.T, w *simulation, _ *simulatedMember) {
		least := rapid.Int32Range(1, 4).Draw(t, "least")
		scaling := rapid.SampledFrom([]*v1alpha1.Autoscaling{nil, nil, {MinReplicas: &least, MaxReplicas: least + 3}}).Draw(t, "autoscaling")
		w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Autoscaling = scaling })
	}},
	{"suspend", func(_ *rapid.T, w *simulation, _ *simulatedMember) {
		w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Suspend = !spec.Suspend })
	}},
	{"override", func(t *rapid.T, w *simulation, _ *simulatedMember) {
		replicas := rapid.Int32Range(0, 4).Draw(t, "overriding")
		w.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Overrides = []v1alpha1.Override{{Name: "us", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: inRegion("us")}, Replicas: &replicas}}
		})
	}},
	{"image", func(_ *rapid.T, w *simulation, _ *simulatedMember) {
		w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Image += "1" })
	}},
}

func inRegion(region string) *v1alpha1.ClusterSelector {
	return &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": region}}
}

func (w *simulation) editPlacement(change func(*v1alpha1.Placement)) {
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		if spec.Placement == nil {
			spec.Placement = &v1alpha1.Placement{}
		}
		change(spec.Placement)
	})
}
