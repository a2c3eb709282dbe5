{{/* The gateway's configuration, and what follows from it. */}}

{{/* The whole GatewayConfiguration, as YAML. */}}
{{- define "extender-gateway.config" -}}
{{- $config := mustMergeOverwrite (fromYaml (include "extender-gateway.defaultConfig" .)) (deepCopy .Values.config) -}}
{{- $_ := set $config "exempt" (dict "namespaces" (include "extender-gateway.exempt" . | fromJsonArray)) -}}
{{- $_ := set $config "backends" (include "extender-gateway.backends" . | fromJsonArray) -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "extender-gateway.defaultConfig" -}}
apiVersion: extender-gateway.io/v1alpha1
kind: GatewayConfiguration
extender:
  address: 0.0.0.0:8888
  # A quarter of the memory limit: a decision takes some times as much as the body of its call.
  maxBytesInFlight: 128Mi
  {{- if .Values.secondScheduler.enabled }}
  socket: /run/extender-gateway/plugin.sock
  {{- end }}
  {{- if ne .Values.tls.mode "None" }}
  tls:
    certFile: /etc/extender-gateway/tls/tls.crt
    keyFile: /etc/extender-gateway/tls/tls.key
    {{- if or .Values.tls.clients.caSecretName .Values.tls.clients.caConfigMapName }}
    clientCAFile: /etc/extender-gateway/clients/ca.crt
    clientCertificate: {{ .Values.tls.clients.clientCertificate }}
    allowedNames: {{ .Values.tls.clients.allowedNames | toJson }}
    {{- end }}
  {{- end }}
metrics:
  address: 0.0.0.0:9402
  {{- include "extender-gateway.pageAccess" (dict "root" . "name" "metrics") | indent 2 }}
admin:
  address: 127.0.0.1:9403
  {{- include "extender-gateway.pageAccess" (dict "root" . "name" "admin") | indent 2 }}
{{- if include "extender-gateway.policyThatReadsPods" . }}
pods: {source: Watch}
{{- end }}
{{- if eq (dig "nodes" "source" "Watch" .Values.config) "Watch" }}
# Pods come back when a policy was repaired or taken out. Without a watch the gateway needs no apiserver.
requeue: PodCondition
{{- end }}
{{- end -}}

{{/* The second scheduler's configuration: its profile is what `extender-gateway scheduler-config --door plugin` prints. */}}
{{- define "extender-gateway.schedulerConfig" -}}
{{- $extender := (include "extender-gateway.config" . | fromYaml).extender -}}
{{- $ignored := list -}}
{{- range .Values.policies -}}{{- range dig "match" "managedResources" list . -}}
{{- if .ignoredByScheduler -}}{{- $ignored = append $ignored .name -}}{{- end -}}
{{- end -}}{{- end -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceNamespace: {{ .Release.Namespace | quote }}, resourceName: {{ .Values.secondScheduler.name | quote }}}
profiles:
- schedulerName: {{ .Values.secondScheduler.name | quote }}
  plugins:
    multiPoint: {disabled: [{name: DefaultPreemption}], enabled: [{name: ExtenderGateway, weight: 10}]}
    filter: {enabled: [{name: ExtenderGateway}]}
    bind: {enabled: [{name: ExtenderGateway}]}
  pluginConfig:
  - name: ExtenderGateway
    args:
      socket: {{ $extender.socket }}
      # timeouts.decision and 2 s; durations of Go are sums.
      timeout: {{ with dig "timeouts" "decision" "" .Values.config }}{{ . }}2s{{ else }}3s{{ end }}
      {{- with $extender.ignorable }}
      ignorable: {{ . }}
      {{- end }}
  {{- with $ignored }}
  - {name: NodeResourcesFit, args: {ignoredResources: {{ uniq . | sortAlpha | toJson }}}}
  {{- end }}
{{- end -}}

{{/* TLS and authorization of the metrics or the admin address: (dict "root" $ "name" NAME). */}}
{{- define "extender-gateway.pageAccess" -}}
{{- $page := get .root.Values .name -}}
{{- if $page.tls.enabled }}
{{- $folder := $page.tls.secretName | empty | ternary "tls" (printf "%s-tls" .name) }}
tls:
  certFile: /etc/extender-gateway/{{ $folder }}/tls.crt
  keyFile: /etc/extender-gateway/{{ $folder }}/tls.key
  {{- if include "extender-gateway.pageClients" . }}
  clientCAFile: /etc/extender-gateway/{{ .name }}-clients/ca.crt
  allowedNames: {{ $page.tls.clients.allowedNames | toJson }}
  {{- end }}
{{- end }}
{{- if ne $page.authorization "None" }}
authorization: {{ $page.authorization }}
{{- end }}
{{- end -}}

{{/* "true" if an address takes client certificates: (dict "root" $ "name" NAME). */}}
{{- define "extender-gateway.pageClients" -}}
{{- $clients := (get .root.Values .name).tls.clients -}}
{{- if or $clients.caSecretName $clients.caConfigMapName -}}true{{- end -}}
{{- end -}}

{{/* "true" if nobody uses the admin address without a certificate or a token. */}}
{{- define "extender-gateway.adminIsAuthorized" -}}
{{- $clients := include "extender-gateway.pageClients" (dict "root" . "name" "admin") -}}
{{- if or (ne .Values.admin.authorization "None") $clients -}}true{{- end -}}
{{- end -}}

{{/* The name of a ready-made policy that reads the pods on nodes; the gateway learns that from the handshake only. */}}
{{- define "extender-gateway.policyThatReadsPods" -}}
{{- $found := "" -}}
{{- range .Values.policies -}}
{{- if has .program (list "node-resources" "reservation" "spread") -}}{{- $found = .name -}}{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/* The namespaces whose pods no policy is called for, as JSON. */}}
{{- define "extender-gateway.exempt" -}}
{{- $names := list "kube-system" .Release.Namespace -}}
{{- range .Values.policies -}}
{{- with .url -}}{{- $names = append $names (include "extender-gateway.namespaceOfURL" .) -}}{{- end -}}
{{- with .namespace -}}{{- $names = append $names . -}}{{- end -}}
{{- end -}}
{{- concat $names (dig "exempt" "namespaces" (list) .Values.config) | compact | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* The namespace of a Service's URL: http://NAME.NAMESPACE:PORT, with or without .svc and .svc.cluster.local. Otherwise "". */}}
{{- define "extender-gateway.namespaceOfURL" -}}
{{- $host := regexReplaceAll "^https?://|\\.?(:[0-9]+)?(/.*)?$" . "" -}}
{{- $inside := regexReplaceAll "\\.svc(\\.cluster\\.local)?$" $host "" -}}
{{- if regexMatch "^[^.]+\\.[^.]+$" $inside -}}
{{- regexFind "[^.]+$" $inside -}}
{{- end -}}
{{- end -}}

{{/*
A rule of egress for the pods behind a Service's URL, with all their ports: most network plugins see the port of the pod,
which may be another one than the Service's. Nothing for other URLs.
*/}}
{{- define "extender-gateway.egressToService" -}}
{{- with include "extender-gateway.namespaceOfURL" . -}}
- to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . | quote }}}}}]
{{- end -}}
{{- end -}}

{{/* The entries of `backends`, as JSON. */}}
{{- define "extender-gateway.backends" -}}
{{- $backends := list -}}
{{- range .Values.policies -}}
{{- /* The fields of a backend; the others are the chart's, or unknown: the schema refuses those. Written by make config-record. */ -}}
{{- $backend := pick . "name" "url" "tls" "mode" "canary" "maxRejectShare" "pureAnswers" "args" "match" "filter" "score" "preempt" "bind" "beforeFilter" "beforeFilterNodes" "beforeScore" -}}
{{- if not .url -}}
{{- $it := dict "root" $ "policy" . -}}
{{- $_ := set $backend "url" (include "extender-gateway.policyURL" $it) -}}
{{- if include "extender-gateway.policyHasTLS" $it -}}
{{- $folder := "/etc/extender-gateway/policy-tls" -}}
{{- $_ := set $backend "tls" (dict "caFile" (printf "%s/ca.crt" $folder) "certFile" (printf "%s/tls.crt" $folder) "keyFile" (printf "%s/tls.key" $folder)) -}}
{{- end -}}
{{- end -}}
{{- $backends = append $backends $backend -}}
{{- end -}}
{{- toJson $backends -}}
{{- end -}}

{{/* The port of an address or a URL. */}}
{{- define "extender-gateway.portOf" -}}
{{- regexFind ":[0-9]+$" . | trimPrefix ":" -}}
{{- end -}}

{{- define "extender-gateway.extenderPort" -}}
{{- include "extender-gateway.portOf" (include "extender-gateway.config" . | fromYaml).extender.address -}}
{{- end -}}

{{- define "extender-gateway.metricsPort" -}}
{{- include "extender-gateway.portOf" (include "extender-gateway.config" . | fromYaml).metrics.address -}}
{{- end -}}

{{- define "extender-gateway.adminPort" -}}
{{- include "extender-gateway.portOf" (include "extender-gateway.config" . | fromYaml).admin.address -}}
{{- end -}}

{{/* "true" if an address can be reached inside the pod only. */}}
{{- define "extender-gateway.isLoopback" -}}
{{- if regexMatch "^(127\\.|\\[::1\\])" . -}}true{{- end -}}
{{- end -}}

{{- define "extender-gateway.adminIsReachable" -}}
{{- if not (include "extender-gateway.isLoopback" (include "extender-gateway.config" . | fromYaml).admin.address) -}}true{{- end -}}
{{- end -}}

{{/* "true" if the gateway creates Events at its own pods. */}}
{{- define "extender-gateway.createsEvents" -}}
{{- if eq (dig "events" "None" (include "extender-gateway.config" . | fromYaml)) "Overrides" -}}true{{- end -}}
{{- end -}}

{{/* The rules of the gateway's ClusterRole, as JSON: what docs/configuration.md lists for each setting, nothing else. */}}
{{- define "extender-gateway.rules" -}}
{{- $config := include "extender-gateway.config" . | fromYaml -}}
{{- $rules := list -}}
{{- $watchesNodes := eq (dig "nodes" "source" "Watch" $config) "Watch" -}}
{{- if $watchesNodes -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "nodes") "verbs" (list "list" "watch")) -}}
{{- end -}}
{{- $preempts := false -}}
{{- range .Values.policies -}}{{- if hasKey . "preempt" -}}{{- $preempts = true -}}{{- end -}}{{- end -}}
{{- $podSource := dig "pods" "source" (and $watchesNodes $preempts | ternary "Watch" "None") $config -}}
{{- $binds := ne (dig "binder" "None" $config) "None" -}}
{{- $podVerbs := concat ($binds | ternary (list "get") (list)) (eq $podSource "Watch" | ternary (list "list" "watch") (list)) -}}
{{- if $podVerbs -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods") "verbs" $podVerbs) -}}
{{- end -}}
{{- if $binds -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods/binding") "verbs" (list "create")) -}}
{{- end -}}
{{- if and $binds (eq $podSource "Watch") -}}
{{- $rules = append $rules (dict "apiGroups" (list "scheduling.k8s.io") "resources" (list "podgroups") "verbs" (list "get")) -}}
{{- end -}}
{{- if eq (dig "requeue" "None" $config) "PodCondition" -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods/status") "verbs" (list "patch")) -}}
{{- end -}}
{{- if or (eq .Values.metrics.authorization "Kubernetes") (eq .Values.admin.authorization "Kubernetes") -}}
{{- $rules = append $rules (dict "apiGroups" (list "authentication.k8s.io") "resources" (list "tokenreviews") "verbs" (list "create")) -}}
{{- $rules = append $rules (dict "apiGroups" (list "authorization.k8s.io") "resources" (list "subjectaccessreviews") "verbs" (list "create")) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/* "true" if the gateway's pods have permissions in the apiserver. */}}
{{- define "extender-gateway.usesApiserver" -}}
{{- if or .Values.secondScheduler.enabled (ne (include "extender-gateway.rules" .) "[]") (include "extender-gateway.createsEvents" .) -}}true{{- end -}}
{{- end -}}

{{/*
What only a restart can change (docs/operations.md), as text, and shorter timeouts, which the gateway would follow. The pods have its
checksum, so that such a change replaces them; the gateway reads all others from the changed ConfigMap.
*/}}
{{- define "extender-gateway.restartSettings" -}}
{{- $config := include "extender-gateway.config" . | fromYaml -}}
{{- $settings := pick $config "extender" "metrics" "admin" "otlp" "cluster" "nodes" -}}
{{- $_ := set $settings "extender" (omit $config.extender "maxRequestBytes" "maxBytesInFlight" "allowUnauthenticatedBind") -}}
{{- $_ := set $settings "timeouts" (omit (dig "timeouts" (dict) $config) "shutdown") -}}
{{- $_ := set $settings "exporter" (dig "traces" "exporter" "" $config) -}}
{{- $_ := set $settings "format" (dig "log" "format" "Text" $config) -}}
{{- $_ := set $settings "binds" (ne (dig "binder" "None" $config) "None") -}}
{{- if .Values.secondScheduler.enabled -}}{{- $_ := set $settings "scheduler" (include "extender-gateway.schedulerConfig" .) -}}{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* Where the gateway's container has the configuration, and the certificates that it names. */}}
{{- define "extender-gateway.fileMounts" -}}
- {name: config, mountPath: /etc/extender-gateway/config, readOnly: true}
{{- if ne (include "extender-gateway.policyTLSNamespaces" .) "[]" }}
- {name: policy-tls, mountPath: /etc/extender-gateway/policy-tls, readOnly: true}
{{- end }}
{{- if ne .Values.tls.mode "None" }}
- {name: tls, mountPath: /etc/extender-gateway/tls, readOnly: true}
{{- end }}
{{- if or .Values.tls.clients.caSecretName .Values.tls.clients.caConfigMapName }}
- {name: clients, mountPath: /etc/extender-gateway/clients, readOnly: true}
{{- end }}
{{- range $name := list "metrics" "admin" }}
{{- with (get $.Values $name).tls.secretName }}
- {name: {{ $name }}-tls, mountPath: /etc/extender-gateway/{{ $name }}-tls, readOnly: true}
{{- end }}
{{- if include "extender-gateway.pageClients" (dict "root" $ "name" $name) }}
- {name: {{ $name }}-clients, mountPath: /etc/extender-gateway/{{ $name }}-clients, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{/* Their volumes. */}}
{{- define "extender-gateway.fileVolumes" -}}
- name: config
  configMap: {name: {{ include "extender-gateway.fullname" . }}}
{{- if ne (include "extender-gateway.policyTLSNamespaces" .) "[]" }}
- name: policy-tls
  secret: {secretName: {{ include "extender-gateway.fullname" . }}-policy-client, defaultMode: 0440}
{{- end }}
{{- if ne .Values.tls.mode "None" }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secretName | default (printf "%s-tls" (include "extender-gateway.fullname" .)) }}
    defaultMode: 0440
{{- end }}
{{- with .Values.tls.clients.caSecretName }}
# Its CA only: the gateway needs no key of it.
- name: clients
  secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- with .Values.tls.clients.caConfigMapName }}
- name: clients
  configMap: {name: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- range $name := list "metrics" "admin" }}
{{- $tls := (get $.Values $name).tls }}
{{- with $tls.secretName }}
- name: {{ $name }}-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with $tls.clients.caSecretName }}
- name: {{ $name }}-clients
  secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- with $tls.clients.caConfigMapName }}
- name: {{ $name }}-clients
  configMap: {name: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end }}
{{- end -}}

{{/* The rules with which `--gateway-namespace` reaches the admin address of each pod. */}}
{{- define "extender-gateway.portForwardRules" -}}
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
- {apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}
{{- end -}}
