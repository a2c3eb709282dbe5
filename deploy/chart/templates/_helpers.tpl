{{/* Names and labels. */}}

{{- define "extender-gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "extender-gateway.fullname" .) -}}
{{- end -}}

{{/* The name of a cluster-wide object: two releases in different namespaces may have the same name. */}}
{{- define "extender-gateway.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "extender-gateway.fullname" .) -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "extender-gateway.labels" -}}
{{- include "extender-gateway.labelsWith" (dict "root" .) -}}
{{- end -}}

{{/* The same with further ones, which replace those of commonLabels: (dict "root" $ "labels" MAP). */}}
{{- define "extender-gateway.labelsWith" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: extender-gateway
{{- with merge (deepCopy (.labels | default dict)) (.root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What selects the gateway's pods. `explain` and `status` find them by the first label, so no other pod may have it. */}}
{{- define "extender-gateway.selector" -}}
app.kubernetes.io/name: extender-gateway
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Metadata of an object of the gateway: (dict "root" $ "name" NAME), and "labels" with further ones. */}}
{{- define "extender-gateway.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "extender-gateway.labelsWith" . | nindent 2 }}
  {{- include "extender-gateway.selector" .root | nindent 2 }}
{{- end -}}

{{/* Metadata of a cluster-wide object. */}}
{{- define "extender-gateway.clusterMetadata" -}}
name: {{ .name }}
labels:
  {{- include "extender-gateway.labels" .root | nindent 2 }}
  {{- include "extender-gateway.selector" .root | nindent 2 }}
{{- end -}}

{{/* An image: (dict "image" IMAGE "tag" DEFAULT). */}}
{{- define "extender-gateway.image" -}}
{{- .image.repository }}{{ with .image.tag | default .tag }}:{{ . }}{{ end }}{{ with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
The security context of a policy's pod or container: the fields of the policy replace those of the value with the same name. A field,
or all of it, is left out if it is null: (dict "root" $ "policy" POLICY "name" podSecurityContext|securityContext).
*/}}
{{- define "extender-gateway.policySecurity" -}}
{{- $context := deepCopy (get .root.Values .name | default dict) -}}
{{- if and (hasKey .policy .name) (kindIs "invalid" (get .policy .name)) -}}
{{- $context = dict -}}
{{- end -}}
{{- range $field, $value := get .policy .name | default dict -}}
{{- if kindIs "invalid" $value -}}{{- $_ := unset $context $field -}}
{{- else -}}{{- $_ := set $context $field $value -}}{{- end -}}
{{- end -}}
{{- if $context -}}
securityContext: {{ toJson $context }}
{{- end -}}
{{- end -}}

{{/* Anti-affinity over nodes, and what `affinity` has: (dict "root" $ "selector" YAML "affinity" MAP). */}}
{{- define "extender-gateway.affinity" -}}
{{- $affinity := dict -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (fromYaml .selector)) -}}
{{- if hasKey .affinity "podAntiAffinity" -}}{{- /* It replaces that of spread.nodes. */ -}}
{{- else if eq .root.Values.spread.nodes "Required" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else if eq .root.Values.spread.nodes "Preferred" -}}
{{- $preferred := dict "weight" 100 "podAffinityTerm" $term -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $preferred)) -}}
{{- end -}}
{{- with merge (deepCopy .affinity) $affinity -}}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/*
Topology spread constraints: that of spread.zones, unless one of the list is for zones, and the list, the selector of which is by default that of
these pods: (dict "root" $ "selector" YAML "constraints" LIST).
*/}}
{{- define "extender-gateway.topologySpread" -}}
{{- $zone := "topology.kubernetes.io/zone" -}}
{{- $selector := dict "matchLabels" (fromYaml .selector) -}}
{{- $constraints := list -}}
{{- $zones := .root.Values.spread.zones -}}
{{- range .constraints -}}
{{- if eq .topologyKey $zone -}}{{- $zones = "None" -}}{{- end -}}
{{- $constraints = append $constraints (hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $selector)) -}}
{{- end -}}
{{- if ne $zones "None" -}}
{{- $unsatisfiable := eq $zones "Required" | ternary "DoNotSchedule" "ScheduleAnyway" -}}
{{- $constraints = prepend $constraints (dict "maxSkew" 1 "topologyKey" $zone "whenUnsatisfiable" $unsatisfiable "labelSelector" $selector) -}}
{{- end -}}
{{- with $constraints -}}
topologySpreadConstraints:
{{- toYaml . | nindent 0 }}
{{- end -}}
{{- end -}}

{{/* A rollout replaces one replica after the other. If replicas may not share a node, there is no room for a third one: whether that is so. */}}
{{- define "extender-gateway.strategy" -}}
type: RollingUpdate
{{- if . }}
rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
{{- else }}
rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
{{- end }}
{{- end -}}

{{- define "extender-gateway.disruptionBudget" -}}
maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable }}
{{- if semverCompare ">=1.27.0-0" .Capabilities.KubeVersion.Version }}
# A replica that is not ready anyway must not keep a node from being drained.
unhealthyPodEvictionPolicy: AlwaysAllow
{{- end }}
{{- end -}}
