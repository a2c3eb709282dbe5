{{/*
Values that the schema allows and that contradict each other. Each fails with one sentence that names the value and the
remedy. The schema reports wrong types and unknown names before this.
*/}}
{{- define "extender-gateway.check" -}}
{{- include "extender-gateway.checkGateway" . -}}
{{- include "extender-gateway.checkSecondScheduler" . -}}
{{- include "extender-gateway.checkPolicies" . -}}
{{- include "extender-gateway.checkConfig" . -}}
{{- include "extender-gateway.checkTLS" . -}}
{{- include "extender-gateway.checkPages" . -}}
{{- include "extender-gateway.checkAccess" . -}}
{{- include "extender-gateway.checkHostNetwork" . -}}
{{- include "extender-gateway.checkLabels" . -}}
{{- end -}}

{{- define "extender-gateway.checkGateway" -}}
{{- if lt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas: %d runs no gateway, and kube-scheduler then schedules no pod; set at least 1" (int .Values.replicas)) -}}
{{- end -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) 18 -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is less than the gateway needs to finish its calls and to send its last traces, up to 18 s with the default timeouts; set at least 18" (int .Values.terminationGracePeriodSeconds)) -}}
{{- end -}}
{{- $timeouts := dig "timeouts" (dict) .Values.config -}}
{{- if or (hasKey $timeouts "bind") (hasKey $timeouts "decision") -}}
{{- $shutdown := dig "shutdown" "25s" $timeouts -}}
{{- if regexMatch "^[0-9]+[sm]$" $shutdown -}}
{{- $needed := add 7 (mul (atoi (regexFind "^[0-9]+" $shutdown)) (hasSuffix "m" $shutdown | ternary 60 1)) -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is less than the gateway may take to stop, config.timeouts.shutdown (%s) and 7 s; set at least %d" (int .Values.terminationGracePeriodSeconds) $shutdown (int $needed)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" (include "extender-gateway.fullname" .)) -}}
{{- fail (printf "fullnameOverride: %s begins with a digit, and names of Services must begin with a letter; set one that does, or use another release name" (include "extender-gateway.fullname" .)) -}}
{{- end -}}
{{- if gt (len (include "extender-gateway.fullname" .)) 53 -}}
{{- fail (printf "fullnameOverride: %s is longer than 53 characters, and names that begin with it would be too long; set a shorter one" (include "extender-gateway.fullname" .)) -}}
{{- end -}}
{{- if and .Values.priorityQuota.create (not .Values.priorityClassName) -}}
{{- fail "priorityQuota.create: true needs a class of pods to allow, but priorityClassName is empty; set it, for example to system-cluster-critical, or set priorityQuota.create: false" -}}
{{- end -}}
{{- if and .Values.service.clusterIP (ne .Values.service.clusterIP "None") (not (regexMatch "^[0-9a-fA-F.:]+$" .Values.service.clusterIP)) -}}
{{- fail (printf "service.clusterIP: %s is not an IP address; set one of the cluster's range of Services, or \"\"" .Values.service.clusterIP) -}}
{{- end -}}
{{- if eq .Values.service.clusterIP "None" -}}
{{- fail "service.clusterIP: None would make the Service headless, and kube-scheduler often has no cluster DNS to find its pods; set an IP address, or \"\"" -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkSecondScheduler" -}}
{{- $second := .Values.secondScheduler -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- range $mistake, $is := $second.enabled | ternary (dict
  (printf "secondScheduler.enabled: true, but kube-scheduler with the plugin is of Kubernetes 1.35 or later, and the cluster of %s; update it, or use the extender (docs/second-scheduler.md)" $version) (semverCompare "<1.35.0-0" $version)
  "secondScheduler.image.tag: is missing; set repository, and tag or digest, to those of the image that `make scheduler-image` builds" (not (or $second.image.tag $second.image.digest))
  "secondScheduler.name: is that of the cluster's scheduler, and both would place its pods; set another name" (eq $second.name "default-scheduler")
  "schedulerName: is that of secondScheduler, which runs in the same pods and could never start; set another one" (eq $second.name .Values.schedulerName)
  "secondScheduler.enabled: true, but in the node's network its port 10259 is that of the cluster's kube-scheduler; set hostNetwork: false" .Values.hostNetwork
  "config.extender.socket: must not be set; secondScheduler sets it, so that its folder is mounted, too" (dig "extender" "socket" "" .Values.config)
) (dict "secondScheduler.image: has no effect, because secondScheduler.enabled is false; set it to true, or remove it" (or $second.image.tag $second.image.digest)) -}}
{{- if $is -}}{{- fail $mistake -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkPolicies" -}}
{{- if not .Values.policies -}}
{{- fail "policies: is empty, and the gateway needs at least one; add one, for example {name: rules, program: label-rules, inPod: true, rules: {rules: []}, filter: {}}" -}}
{{- end -}}
{{- $names := dict -}}
{{- $ports := dict -}}
{{- $reserving := dict -}}
{{- range $i, $policy := .Values.policies -}}
{{- $at := printf "policies[%d]" $i -}}
{{- $name := $policy.name | default "" -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" $name) -}}
{{- fail (printf "%s.name: %q is not a DNS label; use 1 to 63 lower case letters, digits and -, with a letter or digit at both ends" $at $name) -}}
{{- end -}}
{{- if eq ($policy.program | default "") "reservation" -}}
{{- if hasKey $reserving "at" -}}
{{- fail (printf "%s.program: policies[%v] is the policy of Reservations already, and each would count them; remove one of both" $at (get $reserving "at")) -}}
{{- end -}}
{{- $_ := set $reserving "at" $i -}}
{{- end -}}
{{- if hasKey $names $name -}}
{{- fail (printf "%s.name: %s is already the name of policies[%v]; names of policies must be unique" $at $name (get $names $name)) -}}
{{- end -}}
{{- $_ := set $names $name $i -}}
{{- include "extender-gateway.checkVerbs" (dict "root" $ "policy" $policy "at" $at) -}}
{{- include "extender-gateway.checkPlace" (dict "root" $ "policy" $policy "at" $at) -}}
{{- $acts := has ($policy.program | default "") (list "label-binder" "reservation" "http-extender") -}}
{{- $isReached := and (eq (include "extender-gateway.policyPlace" $policy) "Deployment") (eq $.Values.policyTLS.mode "None") -}}
{{- if and $acts $isReached (not $policy.allowUnauthenticatedBind) -}}
{{- fail (printf "%s.program: %s would act for anyone who reaches its port, because callers need no certificate; set policyTLS.mode to Generated or CertManager, or %s.allowUnauthenticatedBind: true" $at $policy.program $at) -}}
{{- end -}}
{{- if eq (include "extender-gateway.policyPlace" $policy) "Sidecar" -}}
{{- $port := include "extender-gateway.policyPort" (dict "root" $ "policy" $policy) -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "%s.port: %s is already the port of policies[%v] in the same pod; set another one" $at $port (get $ports $port)) -}}
{{- end -}}
{{- if has $port (list (include "extender-gateway.extenderPort" $) (include "extender-gateway.metricsPort" $) (include "extender-gateway.adminPort" $)) -}}
{{- fail (printf "%s.port: %s is a port of the gateway in the same pod; set another one" $at $port) -}}
{{- end -}}
{{- $_ := set $ports $port $i -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkVerbs" -}}
{{- $served := dict "label-rules" (list "filter" "score" "preempt") "label-binder" (list "bind") "node-resources" (list "filter" "score") "node-affinity" (list "filter" "score") "spread" (list "filter" "score") "http-extender" (list "filter" "score" "preempt" "bind") "reservation" (list "filter" "score" "preempt" "bind" "beforeFilterNodes") -}}
{{- $program := .policy.program | default "" -}}
{{- $verbs := list -}}
{{- range $verb := list "filter" "score" "preempt" "bind" "beforeFilter" "beforeFilterNodes" "beforeScore" -}}
{{- if hasKey $.policy $verb -}}
{{- $verbs = append $verbs $verb -}}
{{- if and $program (not (has $verb (get $served $program))) -}}
{{- fail (printf "%s.%s: %s does not serve this verb, only %s; remove it" $.at $verb $program (join ", " (get $served $program))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $verbs -}}
{{- fail (printf "%s: policy %s has no verb and would never be called; add filter, score, preempt, bind or a hook, for example filter: {}" .at .policy.name) -}}
{{- end -}}
{{- if and (hasKey .policy "bind") (eq (dig "binder" "None" .root.Values.config) "None") -}}
{{- fail (printf "%s.bind: has no effect, because config.binder is None; set config.binder to %s or BuiltIn, or remove bind" .at .policy.name) -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkPlace" -}}
{{- $policy := .policy -}}
{{- $at := .at -}}
{{- $place := include "extender-gateway.policyPlace" $policy -}}
{{- if not (or $policy.url $policy.program $policy.image) -}}
{{- fail (printf "%s: policy %s has nothing to run; set program to a ready-made policy, image to one of your own, or url to one that runs elsewhere" $at $policy.name) -}}
{{- end -}}
{{- $unused := list "namespace" "replicas" "probe" "certificates" "rbacRules" "serviceAccountName" "podSecurityContext" "podAnnotations" "podLabels" "priorityClassName" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" -}}
{{- $why := "policies with inPod: true are containers of the gateway's pods" -}}
{{- if eq $place "Elsewhere" -}}
{{- $unused = concat $unused (list "program" "image" "command" "commandArgs" "inPod" "port" "rules" "env" "resources" "securityContext" "extraVolumes" "extraVolumeMounts") -}}
{{- $why = "a policy with a url runs elsewhere" -}}
{{- else if eq $place "Deployment" -}}
{{- $unused = list -}}
{{- end -}}
{{- range $key := $unused -}}
{{- if hasKey $policy $key -}}
{{- fail (printf "%s.%s: has no effect, because %s; remove it" $at $key $why) -}}
{{- end -}}
{{- end -}}
{{- if and (hasPrefix "https://" ($policy.url | default "")) (not $policy.tls) -}}
{{- fail (printf "%s.tls: is missing, and the gateway needs it for an https url; set tls: {caFile: FILE} and mount the file with extraVolumes" $at) -}}
{{- end -}}
{{- if and $policy.tls (not (hasPrefix "https://" ($policy.url | default ""))) -}}
{{- fail (printf "%s.tls: is for a policy with an https url only; remove it" $at) -}}
{{- end -}}
{{- if and $policy.url (not (regexMatch "^https?://[^/]+:[0-9]+$" $policy.url)) -}}
{{- fail (printf "%s.url: %s is not a URL with a port and without a path; expected http://HOST:PORT or https://HOST:PORT" $at $policy.url) -}}
{{- end -}}
{{- if eq $place "Deployment" -}}
{{- include "extender-gateway.checkDeployment" . -}}
{{- end -}}
{{- if eq $place "Sidecar" -}}
{{- include "extender-gateway.checkSidecar" . -}}
{{- end -}}
{{- if and (eq ($policy.program | default "") "label-rules") (not $policy.rules) -}}
{{- fail (printf "%s.rules: is missing, and label-rules needs a file of rules; set it, for example rules: {rules: []}" $at) -}}
{{- end -}}
{{- if and $policy.rules (ne ($policy.program | default "") "label-rules") -}}
{{- fail (printf "%s.rules: is for program: label-rules only; remove it, or use args" $at) -}}
{{- end -}}
{{- if and $policy.program (or $policy.command $policy.commandArgs) -}}
{{- fail (printf "%s.command, commandArgs: the chart sets them for program: %s; remove them, or set image instead of program" $at $policy.program) -}}
{{- end -}}
{{- if and $policy.program $policy.certificates -}}
{{- fail (printf "%s.certificates: is for a policy with an image of its own, and %s has the options; remove it" $at $policy.program) -}}
{{- end -}}
{{- if and $policy.image (not $policy.program) (not (or $policy.image.tag $policy.image.digest)) -}}
{{- fail (printf "%s.image.tag: is missing; set tag or digest, so that all replicas run the same version" $at) -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkDeployment" -}}
{{- if and (hasKey .policy "replicas") (lt (int .policy.replicas) 1) -}}
{{- fail (printf "%s.replicas: %d runs no policy; set at least 1, or mode: Disabled to leave it out of decisions" .at (int .policy.replicas)) -}}
{{- end -}}
{{- if gt (len (include "extender-gateway.policyName" .)) 63 -}}
{{- fail (printf "%s.name: %s would be the name of its Service and is longer than 63 characters; set a shorter name, or fullnameOverride" .at (include "extender-gateway.policyName" .)) -}}
{{- end -}}
{{- if and (not .root.Values.rbac.create) (ne (include "extender-gateway.policyRules" .) "[]") (not .policy.serviceAccountName) -}}
{{- fail (printf "%s.serviceAccountName: is missing, and with rbac.create: false nothing gives policy %s its permissions in the apiserver; set it to an account that has them, or set rbac.create: true" .at .policy.name) -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkSidecar" -}}
{{- if eq .policy.name "gateway" -}}
{{- fail (printf "%s.name: gateway is the name of the gateway's own container; set another name, or inPod: false" .at) -}}
{{- end -}}
{{- if has (.policy.program | default "") (list "label-binder" "reservation") -}}
{{- fail (printf "%s.inPod: %s needs permissions that the gateway's pods do not have; remove inPod, so that it has an account of its own" .at .policy.program) -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkConfig" -}}
{{- range $key, $remedy := dict "backends" "list them in policies; one that runs elsewhere has a url" "apiVersion" "remove it; the chart sets it" "kind" "remove it; the chart sets it" -}}
{{- if hasKey $.Values.config $key -}}
{{- fail (printf "config.%s: must not be set; %s" $key $remedy) -}}
{{- end -}}
{{- end -}}
{{- if dig "extender" "tls" "" .Values.config -}}
{{- fail "config.extender.tls: must not be set; use tls, so that the certificate is mounted, too" -}}
{{- end -}}
{{- range $key := list "metrics" "admin" -}}
{{- range $field := list "tls" "authorization" -}}
{{- if hasKey (dig $key (dict) $.Values.config) $field -}}
{{- fail (printf "config.%s.%s: must not be set; use %s.%s, so that certificates are mounted and permissions granted" $key $field $key $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $config := include "extender-gateway.config" . | fromYaml -}}
{{- $ports := dict -}}
{{- range $key := list "extender" "metrics" "admin" -}}
{{- $port := include "extender-gateway.portOf" (get $config $key).address -}}
{{- if eq $port "0" -}}
{{- fail (printf "config.%s.address: port 0 is a different one in each pod, so no Service can name it; set a port" $key) -}}
{{- end -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "config.%s.address: has the port of config.%s.address, %s; set another one" $key (get $ports $port) $port) -}}
{{- end -}}
{{- $_ := set $ports $port $key -}}
{{- end -}}
{{- range $key := list "extender" "metrics" -}}
{{- if include "extender-gateway.isLoopback" (get $config $key).address -}}
{{- fail (printf "config.%s.address: %s can be reached inside the pod only, but %s; set 0.0.0.0 or [::]" $key (get $config $key).address (eq $key "metrics" | ternary "the kubelet's probes and Prometheus come from outside" "kube-scheduler comes from outside")) -}}
{{- end -}}
{{- end -}}
{{- $binder := dig "binder" "None" $config -}}
{{- $binders := list -}}
{{- range .Values.policies -}}{{- if hasKey . "bind" -}}{{- $binders = append $binders .name -}}{{- end -}}{{- end -}}
{{- if not (has $binder (concat (list "None" "BuiltIn") $binders)) -}}
{{- fail (printf "config.binder: %s is not a policy with bind; set None, BuiltIn, or the name of one of the policies with bind: %s" $binder (join ", " $binders | default "there is none")) -}}
{{- end -}}
{{- $clients := and (ne .Values.tls.mode "None") (or .Values.tls.clients.caSecretName .Values.tls.clients.caConfigMapName) (eq .Values.tls.clients.clientCertificate "Required") -}}
{{- if and (ne $binder "None") (not $clients) (not (dig "extender" "allowUnauthenticatedBind" false .Values.config)) -}}
{{- fail (printf "config.binder: %s would let anyone bind pods who reaches the gateway, because callers need no certificate; set tls.clients, or config.extender.allowUnauthenticatedBind: true" $binder) -}}
{{- end -}}
{{- $reads := include "extender-gateway.policyThatReadsPods" . -}}
{{- if and $reads (eq (dig "pods" "source" "" .Values.config) "None") -}}
{{- fail (printf "config.pods.source: None, but policy %s reads the pods on nodes; remove config.pods.source, or set Watch" $reads) -}}
{{- end -}}
{{- if and (eq (dig "nodes" "source" "" .Values.config) "File") (not .Values.extraVolumes) -}}
{{- fail "config.nodes.source: File, but no file is mounted; add it with extraVolumes and extraVolumeMounts, or set Watch" -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkTLS" -}}
{{- if and (eq .Values.policyTLS.mode "CertManager") (not .Values.policyTLS.certManager.issuerRef.name) -}}
{{- fail "policyTLS.certManager.issuerRef.name: is empty, and policyTLS.mode is CertManager; set the name of an Issuer or ClusterIssuer" -}}
{{- end -}}
{{- $tls := .Values.tls -}}
{{- $issuer := $tls.certManager.issuerRef.name -}}
{{- $clients := or $tls.clients.caSecretName $tls.clients.caConfigMapName -}}
{{- if and (eq $tls.mode "Secret") (not $tls.secretName) -}}
{{- fail "tls.secretName: is empty, but tls.mode is Secret; name a Secret with the keys tls.crt and tls.key, or set tls.mode: CertManager or None" -}}
{{- end -}}
{{- if and (eq $tls.mode "CertManager") (not $issuer) -}}
{{- fail "tls.certManager.issuerRef.name: is empty, but tls.mode is CertManager; name an Issuer or ClusterIssuer, or set tls.mode: Secret or None" -}}
{{- end -}}
{{- if and (ne $tls.mode "Secret") $tls.secretName -}}
{{- fail (printf "tls.secretName: %s is not used, because tls.mode is %s; set tls.mode: Secret, or remove it" $tls.secretName $tls.mode) -}}
{{- end -}}
{{- if and (ne $tls.mode "CertManager") $issuer -}}
{{- fail (printf "tls.certManager.issuerRef.name: %s is not used, because tls.mode is %s; set tls.mode: CertManager, or remove it" $issuer $tls.mode) -}}
{{- end -}}
{{- if and (eq $tls.mode "None") $clients -}}
{{- fail "tls.clients: callers cannot show certificates over plain HTTP, because tls.mode is None; set tls.mode: Secret or CertManager, or remove tls.clients" -}}
{{- end -}}
{{- if and $tls.clients.caSecretName $tls.clients.caConfigMapName -}}
{{- fail "tls.clients: caSecretName and caConfigMapName are both set; set one of them" -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkPages" -}}
{{- range $key := list "metrics" "admin" -}}
{{- $page := get $.Values $key -}}
{{- $clients := include "extender-gateway.pageClients" (dict "root" $ "name" $key) -}}
{{- if and $page.tls.enabled (not $page.tls.secretName) (eq $.Values.tls.mode "None") -}}
{{- fail (printf "%s.tls.enabled: true, but there is no certificate, because tls.mode is None; set %s.tls.secretName or tls.mode" $key $key) -}}
{{- end -}}
{{- if and (not $page.tls.enabled) (or $page.tls.secretName $clients) -}}
{{- fail (printf "%s.tls: has no effect, because %s.tls.enabled is false; set it to true, or remove the rest" $key $key) -}}
{{- end -}}
{{- if and $page.tls.clients.caSecretName $page.tls.clients.caConfigMapName -}}
{{- fail (printf "%s.tls.clients: caSecretName and caConfigMapName are both set; set one of them" $key) -}}
{{- end -}}
{{- if and (ne $page.authorization "None") (not $page.tls.enabled) -}}
{{- fail (printf "%s.authorization: %s would have tokens sent without TLS; set %s.tls.enabled: true" $key $page.authorization $key) -}}
{{- end -}}
{{- range $who := list "readers" "operators" -}}
{{- if and (get $page $who) (eq $page.authorization "None") -}}
{{- fail (printf "%s.%s: has no effect, because %s.authorization is None; set Kubernetes, or remove it" $key $who $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $monitor := .Values.serviceMonitor -}}
{{- if and $monitor.enabled .Values.metrics.tls.enabled (not $monitor.tlsConfig) (or .Values.metrics.tls.secretName (ne .Values.tls.mode "CertManager")) -}}
{{- fail "serviceMonitor.tlsConfig: is empty, but the chart does not know the CA of the certificate of metrics.tls; set it, for example to {ca: {configMap: {name: ca, key: ca.crt}}, serverName: NAME}" -}}
{{- end -}}
{{- if and $monitor.tlsConfig (not .Values.metrics.tls.enabled) -}}
{{- fail "serviceMonitor.tlsConfig: has no effect, because metrics.tls.enabled is false; set it to true, or remove it" -}}
{{- end -}}
{{- if and $monitor.authorization (eq .Values.metrics.authorization "None") -}}
{{- fail "serviceMonitor.authorization: has no effect, because metrics.authorization is None; set Kubernetes, or remove it" -}}
{{- end -}}
{{- end -}}

{{- define "extender-gateway.checkAccess" -}}
{{- $rules := include "extender-gateway.rules" . | fromJsonArray -}}
{{- if include "extender-gateway.createsEvents" . -}}
{{- $rules = append $rules (dict "verbs" (list "create") "resources" (list "events")) -}}
{{- end -}}
{{- $account := .Values.serviceAccount -}}
{{- if and (not $account.create) (not $account.name) (or $rules .Values.rbac.create) -}}
{{- fail "serviceAccount.name: is empty, but serviceAccount.create is false; name an account that exists, or set serviceAccount.create: true" -}}
{{- end -}}
{{- if and (not .Values.rbac.create) (not $account.name) $rules -}}
{{- $needed := list -}}
{{- range $rules -}}{{- $needed = append $needed (printf "%s %s" (join "/" .verbs) (join "/" .resources)) -}}{{- end -}}
{{- fail (printf "rbac.create: false, but the gateway needs permissions in the apiserver (%s); set it to true, or serviceAccount.name to an account that has them" (join ", " $needed)) -}}
{{- end -}}
{{- if and .Values.rbac.portForwarders (not .Values.rbac.create) -}}
{{- fail "rbac.portForwarders: has no effect, because rbac.create is false; set it to true, or remove it" -}}
{{- end -}}
{{- $address := (include "extender-gateway.config" . | fromYaml).admin.address -}}
{{- $guarded := or (include "extender-gateway.adminIsAuthorized" .) (and .Values.networkPolicy.enabled .Values.networkPolicy.adminFrom) -}}
{{- if and (include "extender-gateway.adminIsReachable" .) (not $guarded) -}}
{{- fail (printf "config.admin.address: %s can be reached by every pod and has no authentication; name the clients in networkPolicy.adminFrom with networkPolicy.enabled: true, set admin.authorization, or leave the address at 127.0.0.1:9403 and use kubectl port-forward" $address) -}}
{{- end -}}
{{- if and .Values.networkPolicy.adminFrom (not (include "extender-gateway.adminIsReachable" .)) -}}
{{- fail (printf "networkPolicy.adminFrom: has no effect, because config.admin.address is %s; set config.admin.address to 0.0.0.0:9403, or remove it" $address) -}}
{{- end -}}
{{- end -}}

{{/* NetworkPolicies neither limit nor select pods in the host's network, and the pod security standards allow none. */}}
{{- define "extender-gateway.checkHostNetwork" -}}
{{- if .Values.hostNetwork -}}
{{- if .Values.namespace.create -}}
{{- fail "hostNetwork: true, but namespace.create enforces a pod security standard that allows no pod in the host's network; create the namespace yourself, or set hostNetwork: false" -}}
{{- end -}}
{{- range $key := list "schedulerFrom" "metricsFrom" "adminFrom" -}}
{{- if get $.Values.networkPolicy $key -}}
{{- fail (printf "networkPolicy.%s: has no effect, because hostNetwork is true; remove it, and use certificates or a firewall of the nodes" $key) -}}
{{- end -}}
{{- end -}}
{{- range $i, $policy := .Values.policies -}}
{{- $it := dict "root" $ "policy" $policy -}}
{{- if and $.Values.networkPolicy.enabled (eq (include "extender-gateway.policyPlace" $policy) "Deployment") (not (include "extender-gateway.policyHasTLS" $it)) -}}
{{- fail (printf "policies[%d]: with hostNetwork no NetworkPolicy selects the gateway, so everyone could call policy %s, which has no certificate; set policyTLS.mode, or networkPolicy.enabled: false to allow that" $i $policy.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of the chart select pods. */}}
{{- define "extender-gateway.checkLabels" -}}
{{- $all := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels -}}
{{- range $key := list "serviceMonitor" "prometheusRule" "dashboard" -}}
{{- $_ := set $all (printf "%s.labels" $key) (get $.Values $key).labels -}}
{{- end -}}
{{- range $i, $policy := .Values.policies -}}
{{- $_ := set $all (printf "policies[%d].podLabels" $i) ($policy.podLabels | default dict) -}}
{{- end -}}
{{- range $place, $labels := $all -}}
{{- range $label, $_ := $labels -}}
{{- if regexMatch "^(helm.sh/chart|app.kubernetes.io/(name|instance|component|version|managed-by|part-of))$" $label -}}
{{- fail (printf "%s: the chart sets the label %s itself; remove it" $place $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
