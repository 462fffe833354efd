package command_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
)

// TestJSON_has_the_documented_fields tests that what -o json prints has the fields of the types, and no
// others, and that each kind is there.
func TestJSON_has_the_documented_fields(t *testing.T) {
	createMembers(t)
	createStaged(t, "encoded")
	for name, test := range map[string]struct {
		args []string
		into any
		// has reports whether the decoded value is what was asked for.
		has func(any) bool
	}{
		"clusters": {[]string{"clusters"}, &v1alpha1.MemberClusterList{}, func(v any) bool {
			list := v.(*v1alpha1.MemberClusterList)
			return list.Kind == "MemberClusterList" && len(list.Items) == 3 && list.Items[0].Kind == "MemberCluster"
		}},
		"one cluster": {[]string{"clusters", "east"}, &v1alpha1.MemberCluster{}, func(v any) bool { return v.(*v1alpha1.MemberCluster).Kind == "MemberCluster" }},
		"status": {[]string{"status", "encoded"}, &v1alpha1.AppService{}, func(v any) bool {
			app := v.(*v1alpha1.AppService)
			return app.Kind == "AppService" && len(app.Status.Clusters) == 2
		}},
		"rollout status": {[]string{"rollout", "status", "encoded", "--watch=false"}, &v1alpha1.AppService{}, func(v any) bool { return v.(*v1alpha1.AppService).Kind == "AppService" }},
		"why":            {[]string{"why", "encoded"}, &[]explain.Cluster{}, func(v any) bool { return len(*v.(*[]explain.Cluster)) == 3 }},
		"diff":           {[]string{"diff", "encoded"}, &[]difference.Cluster{}, func(v any) bool { return len(*v.(*[]difference.Cluster)) == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, append(test.args, "-o", "json")...)
			decoder := json.NewDecoder(bytes.NewReader([]byte(got.out)))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(test.into); err != nil || !test.has(test.into) {
				t.Errorf("%v in:\n%s%s", err, got.out, got.errOut)
			}
			if decoder.More() {
				t.Error("there is more than one document")
			}
		})
	}
}
