{{/* Policies. The argument is always (dict "root" $ "policy" POLICY). */}}

{{/* Where a policy runs: Elsewhere, Sidecar or Deployment. */}}
{{- define "extender-gateway.policyPlace" -}}
{{- if .url -}}Elsewhere{{- else if .inPod -}}Sidecar{{- else -}}Deployment{{- end -}}
{{- end -}}

{{- define "extender-gateway.policyName" -}}
{{- include "extender-gateway.fullname" .root }}-{{ .policy.name -}}
{{- end -}}

{{- define "extender-gateway.policyNamespace" -}}
{{- .policy.namespace | default .root.Release.Namespace -}}
{{- end -}}

{{- define "extender-gateway.policyPort" -}}
{{- .policy.port | default .root.Values.policyDefaults.port -}}
{{- end -}}

{{/* "true" if the gateway and this policy verify each other's certificates: in pods of its own, unless its image serves none. */}}
{{- define "extender-gateway.policyHasTLS" -}}
{{- $isServed := and (eq (include "extender-gateway.policyPlace" .policy) "Deployment") (ne (.policy.certificates | default "Options") "None") -}}
{{- if and $isServed (ne .root.Values.policyTLS.mode "None") -}}true{{- end -}}
{{- end -}}

{{/* Where a policy listens. */}}
{{- define "extender-gateway.policyAddress" -}}
{{- .policy.inPod | default false | ternary "127.0.0.1" .root.Values.policyDefaults.address }}:{{ include "extender-gateway.policyPort" . -}}
{{- end -}}

{{/* The options of a policy for its certificates, which the SDKs and the ready-made policies have in common, as JSON. */}}
{{- define "extender-gateway.policyTLSOptions" -}}
["--tls-cert", "/etc/extender-policy-tls/tls.crt", "--tls-key", "/etc/extender-policy-tls/tls.key", "--tls-client-ca", "/etc/extender-policy-tls/ca.crt"]
{{- end -}}

{{/* The namespaces of these policies, as JSON. */}}
{{- define "extender-gateway.policyTLSNamespaces" -}}
{{- $namespaces := list -}}
{{- range .Values.policies -}}
{{- $it := dict "root" $ "policy" . -}}
{{- if include "extender-gateway.policyHasTLS" $it -}}
{{- $namespaces = append $namespaces (include "extender-gateway.policyNamespace" $it) -}}
{{- end -}}
{{- end -}}
{{- $namespaces | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- define "extender-gateway.policyURL" -}}
{{- $port := include "extender-gateway.policyPort" . -}}
{{- if .policy.inPod -}}
http://127.0.0.1:{{ $port }}
{{- else -}}
{{ include "extender-gateway.policyHasTLS" . | empty | ternary "http" "https" }}://{{ include "extender-gateway.policyName" . }}.{{ include "extender-gateway.policyNamespace" . }}.svc:{{ $port }}
{{- end -}}
{{- end -}}

{{/* What selects a policy's pods. Their app.kubernetes.io/name differs from that of the gateway's pods. */}}
{{- define "extender-gateway.policySelector" -}}
app.kubernetes.io/name: extender-policy
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .policy.name | quote }}
{{- end -}}

{{/* Labels, not selectors, so that a policy of the gateway's pods has them, too. */}}
{{- define "extender-gateway.policyLabels" -}}
{{- include "extender-gateway.labels" .root }}
{{ include "extender-gateway.policySelector" . }}
{{- end -}}

{{- define "extender-gateway.policyMetadata" -}}
name: {{ include "extender-gateway.policyName" . }}
namespace: {{ include "extender-gateway.policyNamespace" . | quote }}
labels:
  {{- include "extender-gateway.policyLabels" . | nindent 2 }}
{{- end -}}

{{/* The rules of a policy's ClusterRole, as JSON. Those of label-binder and reservation are in backends/policies/README.md. */}}
{{- define "extender-gateway.policyRules" -}}
{{- $rules := .policy.rbacRules | default (list) -}}
{{- if eq (.policy.program | default "") "label-binder" -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "nodes" "pods") "verbs" (list "get")) -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods/binding") "verbs" (list "create")) -}}
{{- end -}}
{{- if eq (.policy.program | default "") "reservation" -}}
{{- $rules = concat $rules (.root.Files.Get "files/reservation-rules.yaml" | fromYamlArray) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/* The name of a policy's account; "" if it needs none. */}}
{{- define "extender-gateway.policyAccount" -}}
{{- if .policy.serviceAccountName -}}
{{- .policy.serviceAccountName -}}
{{- else if ne (include "extender-gateway.policyRules" .) "[]" -}}
{{- include "extender-gateway.policyName" . -}}
{{- end -}}
{{- end -}}

{{/* The container of a policy. */}}
{{- define "extender-gateway.policyContainer" -}}
{{- $policy := .policy -}}
{{- $port := include "extender-gateway.policyPort" . -}}
{{- $image := $policy.image | default .root.Values.image -}}
{{- $tls := include "extender-gateway.policyHasTLS" . -}}
{{- $tag := $policy.program | empty | ternary "" .root.Chart.AppVersion -}}
name: {{ $policy.name | quote }}
image: {{ include "extender-gateway.image" (dict "image" $image "tag" $tag) | quote }}
imagePullPolicy: {{ $image.pullPolicy | default .root.Values.image.pullPolicy }}
{{- if $policy.program }}
command: [extender-policies]
args:
- {{ $policy.program }}
- --name
- {{ $policy.name | quote }}
- --address
- {{ include "extender-gateway.policyAddress" . | quote }}
{{- if eq $policy.program "label-rules" }}
- --rules
- /etc/extender-policy/rules.yaml
{{- end }}
{{- if eq $policy.program "http-extender" }}
{{- with dig "urlPrefix" "" ($policy.args | default dict) }}
- --allow-url
- {{ . | quote }}
{{- end }}
{{- range $field := list "caFile" "certFile" "keyFile" }}
{{- with dig "tlsConfig" $field "" ($policy.args | default dict) }}
- --allow-file
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if $tls }}
{{- range include "extender-gateway.policyTLSOptions" . | fromJsonArray }}
- {{ . }}
{{- end }}
{{- else if $policy.allowUnauthenticatedBind }}
- --allow-unauthenticated-bind
{{- end }}
{{- else }}
{{- with $policy.command }}
command: {{ toJson . }}
{{- end }}
{{- $args := $policy.commandArgs }}
{{- if and $tls (eq ($policy.certificates | default "Options") "Options") }}
{{- /* Arguments replace those of the image, so the address is one of them. */}}
{{- $args = concat ($args | default (list "--address" (include "extender-gateway.policyAddress" .))) (include "extender-gateway.policyTLSOptions" . | fromJsonArray) }}
{{- end }}
{{- with $args }}
args: {{ toJson . }}
{{- end }}
{{- end }}
{{- with $policy.env }}
env:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- if not $policy.inPod }}
ports:
- {name: grpc, containerPort: {{ $port }}}
{{- /* The kubelet's probe of gRPC has no TLS. */}}
{{- $probe := $policy.probe | default "GRPC" }}
{{- if and $tls (eq $probe "GRPC") }}{{ $probe = "TCP" }}{{ end }}
{{- if eq $probe "GRPC" }}
livenessProbe:
  grpc: {port: {{ $port }}}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  grpc: {port: {{ $port }}}
  periodSeconds: 2
  timeoutSeconds: 1
  failureThreshold: 1
{{- else if eq $probe "TCP" }}
readinessProbe:
  tcpSocket: {port: {{ $port }}}
  periodSeconds: 2
  timeoutSeconds: 1
{{- end }}
{{- end }}
resources:
  {{- toYaml ($policy.resources | default .root.Values.policyDefaults.resources) | nindent 2 }}
{{- with include "extender-gateway.policySecurity" (dict "root" .root "policy" $policy "name" "securityContext") }}
{{ . }}
{{- end }}
{{- if or $policy.rules $policy.extraVolumeMounts $tls }}
volumeMounts:
{{- if $tls }}
- {name: policy-tls, mountPath: /etc/extender-policy-tls, readOnly: true}
{{- end }}
{{- if $policy.rules }}
- {name: {{ include "extender-gateway.rulesVolume" . }}, mountPath: /etc/extender-policy, readOnly: true}
{{- end }}
{{- with $policy.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "extender-gateway.rulesVolume" -}}
{{- printf "rules-%s" .policy.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The volumes of a policy: a list, or nothing. A ConfigMap that is mounted as a folder follows its changes. */}}
{{- define "extender-gateway.policyVolumes" -}}
{{- if .policy.rules }}
- name: {{ include "extender-gateway.rulesVolume" . }}
  configMap: {name: {{ include "extender-gateway.policyName" . }}}
{{- end }}
{{- if include "extender-gateway.policyHasTLS" . }}
- name: policy-tls
  secret: {secretName: {{ include "extender-gateway.fullname" .root }}-policy-server, defaultMode: 0440}
{{- end }}
{{- with .policy.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
