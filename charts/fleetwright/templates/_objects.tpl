{{/*
fleetwright.labels prints the labels of all objects. Helm adds app.kubernetes.io/managed-by itself.
*/}}
{{- define "fleetwright.labels" -}}
app.kubernetes.io/part-of: fleetwright
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
fleetwright.object prints an object of config/. It gets the labels of the chart, and a namespaced
object and the ServiceAccounts of a binding get the namespace of the release.

  root         the root context
  object       the object, which is changed
  annotations  more annotations, or nothing
  labels       more labels, or nothing
  namespace    the namespace of the object, or nothing for that of the release
*/}}
{{- define "fleetwright.object" -}}
{{- $labels := merge (dict)
  (.object.metadata.labels | default dict)
  (.labels | default dict)
  (include "fleetwright.labels" .root | fromYaml) }}
{{- $_ := set .object.metadata "labels" $labels }}
{{- if .annotations }}
{{- $annotations := merge (dict) .annotations (.object.metadata.annotations | default dict) }}
{{- $_ := set .object.metadata "annotations" $annotations }}
{{- end }}
{{- if or .object.metadata.namespace .namespace }}
{{- $_ := set .object.metadata "namespace" (.namespace | default .root.Release.Namespace) }}
{{- end }}
{{- range $subject := .object.subjects }}
{{- $_ := set $subject "namespace" $.root.Release.Namespace }}
{{- end }}
---
{{ toYaml .object }}
{{ end }}

{{/*
fleetwright.objects prints the objects of a file in config/, a link to config/ of the repository, with
the arguments of fleetwright.object and these:

  file     the path of the file
  without  a kind of which no object is printed, or nothing
*/}}
{{- define "fleetwright.objects" -}}
{{- $text := .root.Files.Get .file | required (printf "%s is missing: this chart has not the files that its symbolic links lead to; use the chart of a release" .file) }}
{{- range $document := splitList "\n---\n" (printf "\n%s" $text) }}
{{- $object := fromYaml $document }}
{{- if hasKey $object "Error" }}{{ fail (printf "%s: %s" $.file $object.Error) }}{{ end }}
{{- if and $object.kind (ne $object.kind ($.without | default "")) }}
{{- include "fleetwright.object" (merge (dict "object" $object) $) }}
{{- end }}
{{- end }}
{{- end }}
