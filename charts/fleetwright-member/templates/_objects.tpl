{{/*
fleetwright.labels prints the labels of all objects. Helm adds app.kubernetes.io/managed-by itself.
*/}}
{{- define "fleetwright.labels" -}}
app.kubernetes.io/part-of: fleetwright
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
fleetwright.objects prints the objects of a file in generated/, which is a copy of a file in config/. They
get the labels of the chart, and namespaced objects and ServiceAccounts in bindings get the namespace
of the release.

  root         the root context
  file         the path of the file
  annotations  more annotations, or nothing
  labels       more labels, or nothing
  namespace    the namespace of the objects, or nothing for that of the release
  without      a kind of which no object is printed, or nothing
*/}}
{{- define "fleetwright.objects" -}}
{{- $root := .root }}
{{- $labels := merge (dict) (.labels | default dict) (include "fleetwright.labels" $root | fromYaml) }}
{{- $text := $root.Files.Get .file | required (printf "%s is missing: run make generate" .file) }}
{{- range $document := splitList "\n---\n" (printf "\n%s" $text) }}
{{- $object := fromYaml $document }}
{{- if hasKey $object "Error" }}{{ fail (printf "%s: %s" $.file $object.Error) }}{{ end }}
{{- if and $object.kind (ne $object.kind ($.without | default "")) }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $labels) }}
{{- if $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) $.annotations ($object.metadata.annotations | default dict)) }}
{{- end }}
{{- if or $object.metadata.namespace $.namespace }}
{{- $_ := set $object.metadata "namespace" ($.namespace | default $root.Release.Namespace) }}
{{- end }}
{{- range $subject := $object.subjects }}
{{- $_ := set $subject "namespace" $root.Release.Namespace }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}
