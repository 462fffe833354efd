package karmada

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// systemNamespace is the namespace of Karmada's own objects.
const systemNamespace = "karmada-system"

// chart is Karmada's Helm chart. Helm itself cannot render it, because a chart that it depends on is
// not in Karmada's module. The templates of the objects on the hub need only a few functions.
type chart struct {
	dir string
	ca  []byte
	// webhook is the address of the webhook, and aggregated the port of the aggregated API server.
	webhook    string
	aggregated int
}

// helpers are the helpers of the chart that its templates call, with the default values.
const helpers = `
{{- define "karmada.name" }}karmada{{ end }}
{{- define "karmada.namespace" }}karmada-system{{ end }}
{{- define "karmada.commonLabels" }}{{ end }}
{{- define "karmada.apiserver.caBundle" }}caBundle: {{ .CA }}{{ end }}
{{- define "karmada.webhook.caBundle" }}caBundle: {{ .CA }}{{ end }}
{{- define "karmada.kubeconfig.caData" }}certificate-authority-data: {{ .CA }}{{ end }}`

// static are the templates of the objects on the hub, in the order in which they are applied.
var static = []string{
	"karmada.systemNamespace", "karmada.webhook.configuration", "karmada.apiservice", "karmada.proxyRbac",
	"karmada.bootstrapToken.configuration", "karmada.clusterrole",
}

// objects returns what the chart applies to the hub, without CRDs. All processes are on this machine,
// so the webhook and the aggregated API server have other addresses.
func (c chart) objects() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range static {
		objects, err := c.render(name)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	for _, object := range all {
		var err error
		switch object.GetKind() {
		case "APIService":
			err = unstructured.SetNestedField(object.Object, int64(c.aggregated), "spec", "service", "port")
		case "Service":
			err = unstructured.SetNestedField(object.Object, "127.0.0.1", "spec", "externalName")
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// crds returns the CRDs, with the chart's patches: the conversion webhooks.
func (c chart) crds() ([]*unstructured.Unstructured, error) {
	conversions := map[string]any{}
	for _, name := range []string{"karmada.crd.patch.webhook.resourcebinding", "karmada.crd.patch.webhook.clusterresourcebinding"} {
		patches, err := c.render(name)
		if err != nil {
			return nil, err
		}
		for _, patch := range patches {
			conversions[patch.GetName()], _, _ = unstructured.NestedFieldCopy(patch.Object, "spec", "conversion")
		}
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "_crds", "bases", "*", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crds, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all = append(all, crds...)
	}
	for _, crd := range all {
		if conversion := conversions[crd.GetName()]; conversion != nil {
			if err := unstructured.SetNestedField(crd.Object, conversion, "spec", "conversion"); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// render returns the objects of a template of the chart.
func (c chart) render(name string) ([]*unstructured.Unstructured, error) {
	all := template.New("")
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := all.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"nindent": func(spaces int, text string) string {
			return strings.ReplaceAll("\n"+text, "\n", "\n"+strings.Repeat(" ", spaces))
		},
		"has": func(item string, list []string) bool { return slices.Contains(list, item) },
	})
	files, err := filepath.Glob(filepath.Join(c.dir, "templates", "_*karmada*.tpl"))
	if err != nil {
		return nil, err
	}
	patches, err := filepath.Glob(filepath.Join(c.dir, "templates", "_patch_*.tpl"))
	if err != nil {
		return nil, err
	}
	if _, err := all.ParseFiles(append(files, patches...)...); err != nil {
		return nil, fmt.Errorf("read the chart of Karmada: %w", err)
	}
	var text bytes.Buffer
	values := map[string]any{"installMode": "host", "systemNamespace": systemNamespace, "clusterDomain": "cluster.local", "components": []string(nil)}
	if err := template.Must(all.Parse(helpers)).ExecuteTemplate(&text, name, map[string]any{"Values": values, "CA": base64.StdEncoding.EncodeToString(c.ca)}); err != nil {
		return nil, fmt.Errorf("render %s of Karmada's chart: %w", name, err)
	}
	return decode(bytes.ReplaceAll(text.Bytes(), []byte("karmada-webhook."+systemNamespace+".svc:443"), []byte(c.webhook)))
}

// decode returns the objects in a YAML text.
func decode(content []byte) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
