package difference

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Standard is what the pods of a namespace must comply with.
type Standard struct {
	// Policy is nil if everything is allowed.
	Policy *v1alpha1.PodSecurity
	// Source says where the policy comes from, for a person.
	Source string
}

// security finds the clusters whose pods violate the standard, by the rules of the planner.
type security struct {
	app       *v1alpha1.AppService
	templates *workload.PodTemplates
	present   Standard
	// ofRevision is the policy of the template: that of its revision, if it is not new.
	ofRevision *v1alpha1.PodSecurity
	number     int64 // of its revision, or 0
}

func newSecurity(app *v1alpha1.AppService, history []revision.Stored, present Standard) security {
	s := security{app: app, templates: workload.PodTemplatesOf(app), present: present, ofRevision: present.Policy}
	for _, stored := range history {
		if stored.Number > s.number && revision.HasTemplate(app.Spec, stored.Template) {
			s.number, s.ofRevision = stored.Number, stored.PodSecurity
		}
	}
	return s
}

// refusal returns why a member does not get the pods of the AppService, or "".
func (s security) refusal(member *v1alpha1.MemberCluster, isWanted bool) string {
	entry := s.app.Status.Cluster(member.Name)
	runs := entry != nil && (entry.Revision != 0 || entry.ObservedGeneration > 0)
	if !isWanted || runs && entry.Revision == s.number {
		return ""
	}
	template, err := s.templates.For(member)
	if err != nil {
		return "" // Between has reported it
	}
	ofRevision, ofPresent := podsecurity.Refusal(template, s.ofRevision), podsecurity.Refusal(template, s.present.Policy)
	if podsecurity.Decisive(!runs, ofRevision, ofPresent) == "" {
		return ""
	}
	return ofPresent + " (" + s.present.Source + ")"
}
