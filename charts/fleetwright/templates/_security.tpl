{{/*
fleetwright.podSecurityContext prints the securityContext of a pod. A value adds to it and replaces
nothing, and the schema allows none that is less strict.
*/}}
{{- define "fleetwright.podSecurityContext" -}}
{{- /* The image sets the user. OpenShift assigns another one, and refuses a pod that sets it. */ -}}
{{- $strict := dict "runAsNonRoot" true }}
{{- $profile := dict "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- merge $strict (.Values.podSecurityContext | default dict) $profile | toYaml }}
{{- end }}

{{/*
fleetwright.securityContext prints the securityContext of a container, in the same way.
*/}}
{{- define "fleetwright.securityContext" -}}
{{- $strict := dict
  "allowPrivilegeEscalation" false
  "readOnlyRootFilesystem" true
  "capabilities" (dict "drop" (list "ALL")) }}
{{- mergeOverwrite (deepCopy (.Values.securityContext | default dict)) $strict | toYaml }}
{{- end }}
