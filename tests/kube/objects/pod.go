package objects

import (
	"crypto/rand"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReplicaSet is the owner of pods that are equal except for what Kubernetes makes different in each.
type ReplicaSet struct {
	Namespace string
	// App is the Deployment's name and the pods' label "app".
	App string
	// Labels are further labels of the pods.
	Labels map[string]string
	// hash is the pod-template-hash.
	hash string
	uid  types.UID
}

// NewReplicaSet is the current ReplicaSet of the Deployment app.
func NewReplicaSet(namespace, app string, labels map[string]string) ReplicaSet {
	return ReplicaSet{Namespace: namespace, App: app, Labels: labels, hash: "7d9c6b5f4", uid: types.UID(uuid())}
}

func (r ReplicaSet) name() string { return r.App + "-" + r.hash }

// Pods makes count pods as the ReplicaSet's controller would.
func (r ReplicaSet) Pods(count int) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = r.Pod()
	}
	return pods
}

// Pod makes one pod.
func (r ReplicaSet) Pod() *corev1.Pod {
	token := "kube-api-access-" + suffix()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:         r.name() + "-" + suffix(),
			GenerateName: r.name() + "-",
			Namespace:    r.Namespace,
			Labels:       r.podLabels(),
			Annotations:  map[string]string{"prometheus.io/scrape": "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: r.name(), UID: r.uid,
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            "default",
			TerminationGracePeriodSeconds: new(int64(30)),
			Containers:                    []corev1.Container{r.container(token)},
			Volumes:                       []corev1.Volume{tokenVolume(token)},
			Tolerations:                   tolerations(),
		},
	}
}

func (r ReplicaSet) podLabels() map[string]string {
	labels := map[string]string{"app": r.App, "version": "v1", "pod-template-hash": r.hash}
	for key, value := range r.Labels {
		labels[key] = value
	}
	return labels
}

func (r ReplicaSet) container(token string) corev1.Container {
	return corev1.Container{
		Name:  "main",
		Image: "123456789012.dkr.ecr.eu-west-1.amazonaws.com/acme/" + r.App + ":v1.2.3",
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Env:   environment(),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{
			Name: token, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
		}},
	}
}

func environment() []corev1.EnvVar {
	env := []corev1.EnvVar{{
		Name:      "POD_IP",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
	}}
	for i := range 8 {
		n := strconv.Itoa(i)
		env = append(env, corev1.EnvVar{Name: "ENV_VAR_" + n, Value: "some-configuration-value-" + n})
	}
	return env
}

func tolerations() []corev1.Toleration {
	return []corev1.Toleration{notReady(corev1.TaintNodeNotReady), notReady(corev1.TaintNodeUnreachable)}
}

func notReady(taint string) corev1.Toleration {
	return corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(300)),
	}
}

// suffix is five random characters as Kubernetes appends them to generated names.
func suffix() string {
	return strings.ToLower(rand.Text()[:5])
}

// uuid is a random UID in its usual form.
func uuid() string {
	hex := strings.ToLower(rand.Text() + rand.Text())
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32]}, "-")
}
