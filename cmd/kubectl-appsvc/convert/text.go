package convert

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Text returns an AppService as YAML, with the notes as comments above it.
func Text(app *v1alpha1.AppService, notes []string) (string, error) {
	content, err := yaml.Marshal(struct {
		APIVersion string                  `json:"apiVersion"`
		Kind       string                  `json:"kind"`
		Metadata   map[string]string       `json:"metadata"`
		Spec       v1alpha1.AppServiceSpec `json:"spec"`
	}{app.APIVersion, app.Kind, metadata(app), app.Spec})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# It runs on every cluster: choose some with spec.placement.\n")
	if len(notes) > 0 {
		b.WriteString("# What does not fit:\n")
	}
	for _, note := range notes {
		b.WriteString("# - " + note + "\n")
	}
	b.Write(content)
	return b.String(), nil
}

func metadata(app *v1alpha1.AppService) map[string]string {
	fields := map[string]string{"name": app.Name}
	if app.Namespace != "" {
		fields["namespace"] = app.Namespace
	}
	return fields
}
