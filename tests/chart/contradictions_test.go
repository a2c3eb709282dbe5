package chart

import (
	"strings"
	"testing"
)

// elsewhere is a policy that contradicts nothing.
const elsewhere = "{name: a, url: 'http://a:1', filter: {}}"

// secondScheduler is the begin of values with one.
const secondScheduler = "secondScheduler: {enabled: true, image: {tag: a}"

// TestContradictions expects values that contradict each other to be refused with one sentence, which names the value
// and after the semicolon the remedy.
func TestContradictions(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 0":                                                 "replicas: 0 runs no gateway, and kube-scheduler then schedules no pod; set at least 1",
		"terminationGracePeriodSeconds: 5":                            "terminationGracePeriodSeconds: 5 is less than the gateway needs to finish its calls and to send its last traces, up to 18 s with the default timeouts; set at least 18",
		"fullnameOverride: 1a":                                        "fullnameOverride: 1a begins with a digit, and names of Services must begin with a letter; set one that does",
		"fullnameOverride: " + strings.Repeat("a", 54):                "is longer than 53 characters, and names that begin with it would be too long; set a shorter one",
		"priorityClassName: ''\npriorityQuota: {create: true}":        "priorityQuota.create: true needs a class of pods to allow, but priorityClassName is empty; set it",
		"secondScheduler: {image: {tag: a}}":                          "secondScheduler.image: has no effect, because secondScheduler.enabled is false; set it to true",
		"secondScheduler: {enabled: true}":                            "secondScheduler.image.tag: is missing; set repository, and tag or digest",
		secondScheduler + ", name: default-scheduler}":                "secondScheduler.name: is that of the cluster's scheduler, and both would place its pods; set another name",
		secondScheduler + "}\nschedulerName: policy-scheduler":        "schedulerName: is that of secondScheduler, which runs in the same pods and could never start; set another one",
		secondScheduler + "}\nhostNetwork: true":                      "secondScheduler.enabled: true, but in the node's network its port 10259 is that of the cluster's kube-scheduler; set hostNetwork: false",
		secondScheduler + "}\nconfig: {extender: {socket: /run/a}}":   "config.extender.socket: must not be set; secondScheduler sets it, so that its folder is mounted, too",
		"service: {clusterIP: gateway}":                               "service.clusterIP: gateway is not an IP address; set one of the cluster's range of Services",
		"service: {clusterIP: None}":                                  "service.clusterIP: None would make the Service headless, and kube-scheduler often has no cluster DNS to find its pods; set an IP address",
		"policies: []":                                                "policies: is empty, and the gateway needs at least one; add one",
		"policies: [{name: Rack_Drain, program: spread, filter: {}}]": `policies[0].name: "Rack_Drain" is not a DNS label; use 1 to 63 lower case letters`,
		"policies: [{program: spread, filter: {}}]":                   `policies[0].name: "" is not a DNS label; use`,
		"policies: [" + elsewhere + ", " + elsewhere + "]":            "policies[1].name: a is already the name of policies[0]; names of policies must be unique",
		"policies: [{name: a, program: reservation, score: {}}, {name: b, program: reservation, score: {}}]":                                   "policies[1].program: policies[0] is the policy of Reservations already",
		"policies: [{name: a, program: reservation, score: {}, inPod: true}]":                                                                  "policies[0].inPod: reservation needs permissions that the gateway's pods do not have",
		"policies: [{name: a, program: spread, filter: {}, certificates: Files}]":                                                              "policies[0].certificates: is for a policy with an image of its own, and spread has the options; remove it",
		"policies: [{name: a, image: {repository: a, tag: b}, inPod: true, filter: {}, certificates: None}]":                                   "policies[0].certificates: has no effect, because policies with inPod: true are containers of the gateway's pods",
		"policies: [{name: a, program: spread}]":                                                                                               "policies[0]: policy a has no verb and would never be called; add filter, score, preempt, bind or a hook",
		"policies: [{name: a, program: spread, bind: {}}]":                                                                                     "policies[0].bind: spread does not serve this verb, only filter, score; remove it",
		"policies: [{name: a, url: 'http://a:1', bind: {}}]":                                                                                   "policies[0].bind: has no effect, because config.binder is None; set config.binder to a or BuiltIn, or remove bind",
		"policies: [{name: a, filter: {}}]":                                                                                                    "policies[0]: policy a has nothing to run; set program to a ready-made policy, image to one of your own, or url to one that runs elsewhere",
		"policies: [{name: a, url: 'http://a:1', program: spread, filter: {}}]":                                                                "policies[0].program: has no effect, because a policy with a url runs elsewhere; remove it",
		"policies: [{name: a, url: 'http://a:1', replicas: 2, filter: {}}]":                                                                    "policies[0].replicas: has no effect, because a policy with a url runs elsewhere; remove it",
		"policies: [{name: a, program: spread, inPod: true, replicas: 2, filter: {}}]":                                                         "policies[0].replicas: has no effect, because policies with inPod: true are containers of the gateway's pods; remove it",
		"policies: [{name: a, program: spread, replicas: 0, filter: {}}]":                                                                      "policies[0].replicas: 0 runs no policy; set at least 1, or mode: Disabled",
		"policies: [{name: a, url: 'https://a:1', filter: {}}]":                                                                                "policies[0].tls: is missing, and the gateway needs it for an https url; set tls",
		"policies: [{name: a, url: 'http://a:1', tls: {caFile: a}, filter: {}}]":                                                               "policies[0].tls: is for a policy with an https url only; remove it",
		"policies: [{name: a, url: 'http://a', filter: {}}]":                                                                                   "policies[0].url: http://a is not a URL with a port and without a path; expected http://HOST:PORT",
		"policies: [{name: a, program: label-rules, filter: {}}]":                                                                              "policies[0].rules: is missing, and label-rules needs a file of rules; set it",
		"policies: [{name: a, program: spread, rules: {rules: []}, filter: {}}]":                                                               "policies[0].rules: is for program: label-rules only; remove it, or use args",
		"policies: [{name: a, program: spread, command: [a], filter: {}}]":                                                                     "policies[0].command, commandArgs: the chart sets them for program: spread; remove them",
		"policies: [{name: a, image: {repository: a}, filter: {}}]":                                                                            "policies[0].image.tag: is missing; set tag or digest",
		"policies: [{name: gateway, program: spread, inPod: true, filter: {}}]":                                                                "policies[0].name: gateway is the name of the gateway's own container; set another name, or inPod: false",
		"policies: [{name: " + strings.Repeat("a", 60) + ", program: spread, filter: {}}]":                                                     "would be the name of its Service and is longer than 63 characters; set a shorter name, or fullnameOverride",
		"policies: [{name: a, program: spread, inPod: true, filter: {}}, {name: b, program: spread, inPod: true, filter: {}}]":                 "policies[1].port: 9000 is already the port of policies[0] in the same pod; set another one",
		"policies: [{name: a, program: spread, inPod: true, port: 9402, filter: {}}]":                                                          "policies[0].port: 9402 is a port of the gateway in the same pod; set another one",
		"config: {binder: a, extender: {allowUnauthenticatedBind: true}}\npolicies: [{name: a, program: label-binder, inPod: true, bind: {}}]": "policies[0].inPod: label-binder needs permissions that the gateway's pods do not have; remove inPod",
		"config: {binder: a, extender: {allowUnauthenticatedBind: true}}\nserviceAccount: {name: b}\nrbac: {create: false}\npolicies: [{name: a, program: label-binder, bind: {}}]": "policies[0].serviceAccountName: is missing, and with rbac.create: false nothing gives policy a its permissions in the apiserver; set it",
		"policyTLS: {mode: None}\npolicies: [{name: a, program: http-extender, filter: {}}]":                                                                                        "policies[0].program: http-extender would act for anyone who reaches its port, because callers need no certificate; set policyTLS.mode to Generated or CertManager, or policies[0].allowUnauthenticatedBind: true",
		"policyTLS: {mode: CertManager}":                                                                           "policyTLS.certManager.issuerRef.name: is empty, and policyTLS.mode is CertManager; set the name of an Issuer or ClusterIssuer",
		"config: {backends: []}":                                                                                   "config.backends: must not be set; list them in policies; one that runs elsewhere has a url",
		"config: {kind: GatewayConfiguration}":                                                                     "config.kind: must not be set; remove it; the chart sets it",
		"config: {extender: {tls: {certFile: a}}}":                                                                 "config.extender.tls: must not be set; use tls, so that the certificate is mounted, too",
		"config: {extender: {address: '0.0.0.0:0'}}":                                                               "config.extender.address: port 0 is a different one in each pod, so no Service can name it; set a port",
		"config: {metrics: {address: '0.0.0.0:8888'}}":                                                             "config.metrics.address: has the port of config.extender.address, 8888; set another one",
		"config: {metrics: {address: '127.0.0.1:9402'}}":                                                           "config.metrics.address: 127.0.0.1:9402 can be reached inside the pod only, but the kubelet's probes and Prometheus come from outside; set 0.0.0.0 or [::]",
		"config: {extender: {address: '[::1]:8888'}}":                                                              "config.extender.address: [::1]:8888 can be reached inside the pod only, but kube-scheduler comes from outside; set",
		"config: {binder: zones}":                                                                                  "config.binder: zones is not a policy with bind; set None, BuiltIn, or the name of one of the policies with bind: there is none",
		"config: {timeouts: {bind: 50s, shutdown: 1m}}":                                                            "terminationGracePeriodSeconds: 35 is less than the gateway may take to stop, config.timeouts.shutdown (1m) and 7 s; set at least 67",
		"config: {binder: BuiltIn}":                                                                                "config.binder: BuiltIn would let anyone bind pods who reaches the gateway, because callers need no certificate; set tls.clients, or config.extender.allowUnauthenticatedBind: true",
		"config: {pods: {source: None}}\npolicies: [{name: a, program: node-resources, filter: {}}]":               "config.pods.source: None, but policy a reads the pods on nodes; remove config.pods.source, or set Watch",
		"config: {nodes: {source: File, file: /nodes.yaml}}":                                                       "config.nodes.source: File, but no file is mounted; add it with extraVolumes and extraVolumeMounts, or set Watch",
		"tls: {mode: Secret}":                                                                                      "tls.secretName: is empty, but tls.mode is Secret; name a Secret with the keys tls.crt and tls.key, or set tls.mode: CertManager or None",
		"tls: {mode: CertManager}":                                                                                 "tls.certManager.issuerRef.name: is empty, but tls.mode is CertManager; name an Issuer or ClusterIssuer, or set tls.mode: Secret or None",
		"tls: {secretName: a}":                                                                                     "tls.secretName: a is not used, because tls.mode is None; set tls.mode: Secret, or remove it",
		"tls: {mode: Secret, secretName: a, certManager: {issuerRef: {name: b}}}":                                  "tls.certManager.issuerRef.name: b is not used, because tls.mode is Secret; set tls.mode: CertManager, or remove it",
		"tls: {clients: {caSecretName: a}}":                                                                        "tls.clients: callers cannot show certificates over plain HTTP, because tls.mode is None; set tls.mode",
		"tls: {mode: Secret, secretName: a, clients: {caSecretName: a, caConfigMapName: b}}":                       "tls.clients: caSecretName and caConfigMapName are both set; set one of them",
		"config: {metrics: {tls: {certFile: a}}}":                                                                  "config.metrics.tls: must not be set; use metrics.tls, so that certificates are mounted and permissions granted",
		"config: {admin: {authorization: Kubernetes}}":                                                             "config.admin.authorization: must not be set; use admin.authorization",
		"metrics: {tls: {enabled: true}}":                                                                          "metrics.tls.enabled: true, but there is no certificate, because tls.mode is None; set metrics.tls.secretName or tls.mode",
		"admin: {tls: {secretName: a}}":                                                                            "admin.tls: has no effect, because admin.tls.enabled is false; set it to true, or remove the rest",
		"admin: {tls: {enabled: true, secretName: a, clients: {caSecretName: a, caConfigMapName: b}}}":             "admin.tls.clients: caSecretName and caConfigMapName are both set; set one of them",
		"metrics: {authorization: Kubernetes}":                                                                     "metrics.authorization: Kubernetes would have tokens sent without TLS; set metrics.tls.enabled: true",
		"admin: {operators: [{name: a, namespace: b}]}":                                                            "admin.operators: has no effect, because admin.authorization is None; set Kubernetes, or remove it",
		"metrics: {tls: {enabled: true, secretName: a}}\nserviceMonitor: {enabled: true}":                          "serviceMonitor.tlsConfig: is empty, but the chart does not know the CA of the certificate of metrics.tls; set it",
		"serviceMonitor: {enabled: true, tlsConfig: {serverName: a}}":                                              "serviceMonitor.tlsConfig: has no effect, because metrics.tls.enabled is false; set it to true, or remove it",
		"serviceMonitor: {enabled: true, authorization: {credentials: {name: a, key: b}}}":                         "serviceMonitor.authorization: has no effect, because metrics.authorization is None; set Kubernetes, or remove it",
		"serviceAccount: {create: false}":                                                                          "serviceAccount.name: is empty, but serviceAccount.create is false; name an account that exists, or set serviceAccount.create: true",
		"rbac: {create: false}\nconfig: {binder: BuiltIn, extender: {allowUnauthenticatedBind: true}}":             "rbac.create: false, but the gateway needs permissions in the apiserver (list/watch nodes, get pods, create pods/binding, patch pods/status); set it to true, or serviceAccount.name",
		"rbac: {create: false}\nconfig: {nodes: {source: Request}, events: Overrides}":                             "needs permissions in the apiserver (create events)",
		"config: {admin: {address: '0.0.0.0:9403'}}":                                                               "config.admin.address: 0.0.0.0:9403 can be reached by every pod and has no authentication; name the clients in networkPolicy.adminFrom",
		"config: {admin: {address: '[::]:9403'}}\nnetworkPolicy: {enabled: false, adminFrom: [{podSelector: {}}]}": "can be reached by every pod and has no authentication",
		"rbac: {create: false, portForwarders: [{kind: Group, name: a}]}\nserviceAccount: {name: b}":               "rbac.portForwarders: has no effect, because rbac.create is false",
		"hostNetwork: true\nnamespace: {create: true}":                                                             "hostNetwork: true, but namespace.create enforces a pod security standard that allows no pod in the host's network; create the namespace yourself",
		"hostNetwork: true\nnetworkPolicy: {metricsFrom: [{podSelector: {}}]}":                                     "networkPolicy.metricsFrom: has no effect, because hostNetwork is true; remove it",
		"hostNetwork: true\npolicyTLS: {mode: None}\npolicies: [{name: a, program: spread, filter: {}}]":           "policies[0]: with hostNetwork no NetworkPolicy selects the gateway, so everyone could call policy a, which has no certificate; set policyTLS.mode",
		"podLabels: {app.kubernetes.io/name: a}":                                                                   "podLabels: the chart sets the label app.kubernetes.io/name itself; remove it",
		"policies: [{name: a, program: spread, filter: {}, podLabels: {helm.sh/chart: a}}]":                        "policies[0].podLabels: the chart sets the label helm.sh/chart itself; remove it",
		"networkPolicy: {adminFrom: [{podSelector: {}}]}":                                                          "networkPolicy.adminFrom: has no effect, because config.admin.address is 127.0.0.1:9403; set config.admin.address to 0.0.0.0:9403, or remove it",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			got := withValues(t, values)
			if got.err == nil || !strings.Contains(got.stderr, want) {
				t.Errorf("%v: %s", got.err, got.stderr)
			}
			if lines := strings.Count(strings.TrimSpace(got.stderr), "\n"); lines > 2 {
				t.Errorf("%d lines: %s", lines+1, got.stderr)
			}
		})
	}
}
