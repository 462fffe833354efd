package karmada

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// chartFiles is a chart with the constructs of Karmada's, which is not in the project.
var chartFiles = map[string]string{
	"templates/_karmada_all.tpl": `
{{- define "karmada.systemNamespace" -}}
---
kind: Namespace
metadata:
  name: {{ .Values.systemNamespace }}
  {{- if "karmada.commonLabels" }}
  labels:
    {{- include "karmada.commonLabels" . | nindent 4 }}
  {{- end }}
{{- end }}
{{- define "karmada.webhook.configuration" -}}
{{ $name := include "karmada.name" . }}
---
kind: MutatingWebhookConfiguration
webhooks:
  - clientConfig:
      url: https://{{ $name }}-webhook.{{ include "karmada.namespace" . }}.svc:443/mutate-work
      {{- include "karmada.webhook.caBundle" . | nindent 6 }}
{{- end }}
{{- define "karmada.apiservice" -}}
{{- if eq .Values.installMode "host" }}
---
kind: APIService
spec:
  {{- include "karmada.apiserver.caBundle" . | nindent 2 }}
  service:
    name: {{ include "karmada.name" . }}-aggregated-apiserver
---
kind: Service
spec:
  externalName: {{ .Values.clusterDomain }}
{{- end }}
{{- if has "search" .Values.components }}
---
kind: Unwanted
{{- end }}
{{- end }}
{{- define "karmada.proxyRbac" }}{{ end }}
{{- define "karmada.bootstrapToken.configuration" }}{{ end }}
{{- define "karmada.clusterrole" }}{{ end }}`,
	"templates/_patch_webhook.tpl": `
{{- define "karmada.crd.patch.webhook.resourcebinding" -}}
---
metadata:
  name: resourcebindings
spec:
  conversion:
    strategy: Webhook
{{- end }}
{{- define "karmada.crd.patch.webhook.clusterresourcebinding" }}{{ end }}`,
	"_crds/bases/work/bindings.yaml": "kind: CustomResourceDefinition\nmetadata:\n  name: resourcebindings\nspec:\n  group: work\n",
	"_crds/bases/work/works.yaml":    "kind: CustomResourceDefinition\nmetadata:\n  name: works\nspec:\n  group: work\n",
}

func newChart(t *testing.T) chart {
	t.Helper()
	dir := t.TempDir()
	for name, content := range chartFiles {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chart{dir: dir, ca: []byte("CA"), webhook: "127.0.0.1:1", aggregated: 2}
}

func contents(objects []*unstructured.Unstructured) []map[string]any {
	var all []map[string]any
	for _, object := range objects {
		all = append(all, object.Object)
	}
	return all
}

func TestObjects_have_the_addresses_of_this_machine(t *testing.T) {
	objects, err := newChart(t).objects()
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"kind": "Namespace", "metadata": map[string]any{"name": "karmada-system", "labels": nil}},
		{"kind": "MutatingWebhookConfiguration", "webhooks": []any{map[string]any{"clientConfig": map[string]any{"url": "https://127.0.0.1:1/mutate-work", "caBundle": "Q0E="}}}},
		{"kind": "APIService", "spec": map[string]any{"caBundle": "Q0E=", "service": map[string]any{"name": "karmada-aggregated-apiserver", "port": int64(2)}}},
		{"kind": "Service", "spec": map[string]any{"externalName": "127.0.0.1"}},
	}
	if diff := cmp.Diff(want, contents(objects)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCRDs_have_the_conversions_of_the_chart(t *testing.T) {
	crds, err := newChart(t).crds()
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "resourcebindings"}, "spec": map[string]any{"group": "work", "conversion": map[string]any{"strategy": "Webhook"}}},
		{"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "works"}, "spec": map[string]any{"group": "work"}},
	}
	if diff := cmp.Diff(want, contents(crds)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
