package copies

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

var (
	// settings is a Versioned copy, without which no pod of the Deployment starts.
	settings = Key{workload.ConfigMap, "settings"}
	// registry is a copy that is updated in place. It only pulls images.
	registry = Key{workload.Secret, "registry"}
	// old is a copy that is not needed.
	old = Key{workload.ConfigMap, "settings-of-before"}
)

const (
	listed    = "ConfigMap/settings-of-before,ConfigMap/settings,Secret/registry@2"
	confirmed = listed + ",Deployment/deployment-1"
)

// newFacts returns the facts about a Deployment that has rolled out and needs settings and registry.
func newFacts(record string) Facts {
	deployment := &appsv1.Deployment{}
	deployment.UID = "deployment-1"
	deployment.Annotations = map[string]string{v1alpha1.AnnotationRevision: "1", v1alpha1.AnnotationCopies: record}
	deployment.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings.Name}},
		}}}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: registry.Name}},
	}
	return Facts{
		App: &v1alpha1.AppService{}, Entry: &v1alpha1.ClusterStatus{Revision: 1}, Deployment: deployment, IsOwned: true, IsManaged: true,
		Needed:       []workload.Copy{{Kind: settings.Kind, Name: settings.Name}, {Kind: registry.Kind, Name: registry.Name, Serial: 2}},
		HasRolledOut: func() bool { return true },
		Memory:       &Memory{}, Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
	}
}

func isRollingOut(f *Facts) { f.HasRolledOut = func() bool { return false } }

// remembers makes the memory that of a process that has seen the copies of the Deployment.
func remembers(f *Facts) { f.toApply() }

func TestCopies_are_applied(t *testing.T) {
	tests := map[string]struct {
		record string
		given  func(*Facts)
		want   []Key
	}{
		"but not if the record is confirmed":    {record: confirmed},
		"if the record does not list them":      {want: []Key{settings, registry}},
		"if no rollout proves a written record": {record: listed, given: isRollingOut, want: []Key{settings, registry}},
		"if pods start without them":            {record: listed, want: []Key{registry}},
		"if pods do not run":                    {record: listed, given: func(f *Facts) { f.Deployment.Spec.Replicas = new(int32(0)) }, want: []Key{settings, registry}},
		"if the record is that of another Deployment": {
			record: listed + ",Deployment/deployment-0", want: []Key{settings, registry},
		},
		"if another Deployment has taken the place of the one that had them": {
			record: confirmed, given: func(f *Facts) { remembers(f); f.Deployment.UID = "deployment-2" }, want: []Key{settings, registry},
		},
		"even if the cache says that the other Deployment had them": {
			record: listed + ",Deployment/this", given: func(f *Facts) { remembers(f); f.Deployment.UID = "deployment-2" }, want: []Key{settings, registry},
		},
		"if their content is older":         {record: confirmed, given: func(f *Facts) { f.Needed[1].Serial = 3 }, want: []Key{registry}},
		"but not if their content is newer": {record: confirmed, given: func(f *Facts) { f.Needed[1].Serial = 1 }},
		"but not if this process has applied a newer content": {
			record: confirmed, given: func(f *Facts) { remembers(f); f.Memory.noteApplied(registry, 3, "") },
		},
		"if their serial is absurd": {record: "ConfigMap/settings,Secret/registry@5000000,Deployment/deployment-1", want: []Key{registry}},
		"but not if this process has applied them": {
			given: func(f *Facts) {
				remembers(f)
				f.Memory.noteApplied(settings, 0, "")
				f.Memory.noteApplied(registry, 2, "")
			},
		},
		"after they were deleted": {record: confirmed, given: func(f *Facts) { remembers(f); f.Memory.noteDeleted(settings) }, want: []Key{settings}},
		"if the pods are of another revision, which does not use them": {
			record: confirmed, given: func(f *Facts) {
				f.Entry.Revision, f.Deployment.Spec.Template.Spec.Containers = 2, nil
			}, want: []Key{settings},
		},
		"again on a member that was restored to an older content": {
			record: confirmed, given: func(f *Facts) {
				remembers(f)
				f.Deployment.Annotations[v1alpha1.AnnotationCopies] = "ConfigMap/settings,Secret/registry@1,Deployment/deployment-1"
			}, want: []Key{registry},
		},
		"again on a member that was restored to a time without them": {
			record: confirmed, given: func(f *Facts) {
				remembers(f)
				f.Deployment.Annotations[v1alpha1.AnnotationCopies] = "Secret/registry@2,Deployment/deployment-1"
			}, want: []Key{settings},
		},
		"but not before there is a Deployment": {given: func(f *Facts) { f.Deployment, f.IsOwned, f.IsManaged = nil, false, false }},
		"for a new Deployment":                 {given: func(f *Facts) { f.NewOwner = "deployment-1" }, want: []Key{settings, registry}},
		"before a Deployment of others is adopted": {
			record: confirmed, given: func(f *Facts) { f.NewOwner, f.IsOwned, f.IsManaged = "deployment-1", false, false }, want: []Key{settings, registry},
		},
		"but not for a Deployment of others":            {record: confirmed, given: func(f *Facts) { f.IsOwned, f.IsManaged = false, false }},
		"but not while the Deployment is being deleted": {given: func(f *Facts) { f.Deployment.DeletionTimestamp = &metav1.Time{Time: f.Now} }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts := newFacts(test.record)
			if test.given != nil {
				test.given(&facts)
			}
			var got []Key
			for _, needed := range facts.toApply() {
				got = append(got, KeyOf(needed))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCopies_are_deleted(t *testing.T) {
	tests := map[string]struct {
		given func(*Facts)
		want  []Key
	}{
		"if they are not needed":                 {want: []Key{old}},
		"if nothing is needed":                   {given: func(f *Facts) { f.Needed = nil }, want: []Key{old, settings, registry}},
		"but not before the end of a rollout":    {given: isRollingOut},
		"but not if they are needed again":       {given: func(f *Facts) { f.Needed = append(f.Needed, workload.Copy{Kind: old.Kind, Name: old.Name}) }},
		"but not twice":                          {given: func(f *Facts) { f.Memory.noteDeleted(old) }},
		"but not at once after that has failed":  {given: func(f *Facts) { f.Memory.nextDeletion = f.Now.Add(1) }},
		"later, after that has failed":           {given: func(f *Facts) { f.Memory.nextDeletion = f.Now }, want: []Key{old}},
		"but not those of another Deployment":    {given: func(f *Facts) { f.Deployment.UID = "deployment-2" }},
		"but not if the Deployment is unmanaged": {given: func(f *Facts) { f.IsOwned, f.IsManaged = false, false }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts := newFacts(confirmed)
			remembers(&facts)
			if test.given != nil {
				test.given(&facts)
			}
			if diff := cmp.Diff(test.want, facts.toDelete()); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCopies_are_on_the_member_for_sure(t *testing.T) {
	tests := map[string]struct {
		record string
		given  func(*Facts)
		want   []Key
	}{
		"if the record is confirmed":                          {record: confirmed, given: isRollingOut, want: []Key{old, settings, registry}},
		"but not if the record is only written":               {record: listed, given: isRollingOut},
		"if the pods that run need them":                      {record: listed, want: []Key{settings}},
		"but not if the record is that of another Deployment": {record: listed + ",Deployment/deployment-0"},
		"if this process has applied them": {
			record: listed, given: func(f *Facts) { isRollingOut(f); remembers(f); f.Memory.noteApplied(registry, 2, "") }, want: []Key{registry},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts := newFacts(test.record)
			if test.given != nil {
				test.given(&facts)
			}
			var got []Key
			for _, recorded := range facts.Confirmed() {
				got = append(got, recorded.Key)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("confirmed (-want +got):\n%s", diff)
			}
		})
	}
}

// A copy that is gone is remembered until the record does not list it any more, so that it is not
// deleted twice. Then it is forgotten: a process does not remember all copies of all revisions.
func TestCopies_that_are_gone_are_forgotten(t *testing.T) {
	facts := newFacts(confirmed)
	remembers(&facts)
	facts.Memory.noteDeleted(old)
	remembersOld := func() bool {
		if result, err := new(Ensurer).Delete(t.Context(), facts, nil); err != nil || result.Any {
			t.Fatalf("%+v, %v", result, err)
		}
		return facts.Memory.isDeleted(old)
	}
	if !remembersOld() {
		t.Error("forgotten while the record lists it")
	}
	facts.Deployment.Annotations[v1alpha1.AnnotationCopies] = "ConfigMap/settings,Secret/registry@2,Deployment/deployment-1"
	if remembersOld() {
		t.Error("remembered although the record does not list it")
	}
}
