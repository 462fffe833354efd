package convert

import (
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// Text returns an AppService as YAML, with the notes as comments above it.
func Text(app *v1alpha1.AppService, notes []string) (string, error) {
	object := struct {
		APIVersion string                  `json:"apiVersion"`
		Kind       string                  `json:"kind"`
		Metadata   map[string]string       `json:"metadata"`
		Spec       v1alpha1.AppServiceSpec `json:"spec"`
	}{app.APIVersion, app.Kind, metadata(app), app.Spec}
	content, err := output.MarshalPrintableYAML(object)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# It runs on every cluster: choose some with spec.placement.\n" +
		"# It adopts the objects of its name that run there, if they are the same. They are then its own:\n" +
		"# deleting the AppService deletes them, unless spec.deletionPolicy is Orphan.\n")
	if len(notes) > 0 {
		b.WriteString("# What does not fit:\n")
	}
	for _, note := range notes {
		b.WriteString("# - " + output.Printable(note) + "\n")
	}
	b.WriteString(content)
	return b.String(), nil
}

func metadata(app *v1alpha1.AppService) map[string]string {
	fields := map[string]string{"name": app.Name}
	if app.Namespace != "" {
		fields["namespace"] = app.Namespace
	}
	return fields
}
