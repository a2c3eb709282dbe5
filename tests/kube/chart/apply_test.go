package chart

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
)

// restricted makes a namespace enforce the strictest pod security standard.
var restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}

// TestInstallManifests applies deploy/install.yaml as `kubectl apply --server-side --validate=strict` does.
func TestInstallManifests(t *testing.T) {
	list := manifests(t, read(t, deploy+"/install.yaml"))
	apply(t, list)
	createPods(t, list)
	namespace, err := shared.Client.CoreV1().Namespaces().Get(t.Context(), "extender-gateway", metav1.GetOptions{})
	must(t, err)
	for key, value := range restricted {
		if namespace.Labels[key] != value {
			t.Errorf("the namespace has labels %v", namespace.Labels)
		}
	}
}

// TestChartManifests applies what each of the chart's files of values renders, and the smallest values: none. Pods of the
// Deployments are created in namespaces that enforce the restricted pod security standard.
func TestChartManifests(t *testing.T) {
	apply(t, manifests(t, read(t, "testdata/crds.yaml")))
	established(t)
	files, err := filepath.Glob(deploy + "/chart/ci/*-values.yaml")
	must(t, err)
	if len(files) < 5 {
		t.Fatalf("%v", files)
	}
	createNamespace(t, "policies")
	for _, file := range append([]string{""}, files...) {
		name := "smallest"
		if file != "" {
			name = strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		}
		t.Run(name, func(t *testing.T) {
			namespace := "chart-" + name
			createNamespace(t, namespace)
			var values []string
			if file != "" {
				values = append(values, file)
			}
			list := template(t, namespace, values...)
			apply(t, list)
			createPods(t, list)
		})
	}
}

// TestStrictness expects the way in which the other tests apply manifests to refuse unknown fields.
func TestStrictness(t *testing.T) {
	createNamespace(t, "strict")
	bad := manifests(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: strict}\ndatta: {}\n")[0]
	if err := applyOne(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "datta") {
		t.Errorf("got %v", err)
	}
}

func createNamespace(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: restricted}}
	_, err := shared.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	must(t, err)
}

// apply applies all objects, those first that others need.
func apply(t *testing.T, list []*unstructured.Unstructured) {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("nothing to apply")
	}
	isNamespace := func(object *unstructured.Unstructured) bool { return object.GetKind() == "Namespace" }
	for _, object := range slices.Concat(filtered(list, isNamespace, true), filtered(list, isNamespace, false)) {
		if err := applyOne(t.Context(), object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// filtered are those for which is has this result.
func filtered(list []*unstructured.Unstructured, is func(*unstructured.Unstructured) bool, result bool) (kept []*unstructured.Unstructured) {
	for _, object := range list {
		if is(object) == result {
			kept = append(kept, object)
		}
	}
	return kept
}

// applyOne is a strict server-side apply.
func applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := clientFor(object)
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "tests", FieldValidation: metav1.FieldValidationStrict}
	_, err = client.Patch(ctx, object.GetName(), types.ApplyPatchType, body, options)
	return err
}

func clientFor(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := shared.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client := shared.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Namespace(object.GetNamespace()), nil
	}
	return client, nil
}

// established waits until the apiserver serves the custom resources.
func established(t *testing.T) {
	t.Helper()
	for range 100 {
		shared.mapper.Reset()
		_, monitor := shared.mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}, "v1")
		_, rule := shared.mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}, "v1")
		_, certificate := shared.mapper.RESTMapping(schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"}, "v1")
		_, issuer := shared.mapper.RESTMapping(schema.GroupKind{Group: "cert-manager.io", Kind: "Issuer"}, "v1")
		if monitor == nil && rule == nil && certificate == nil && issuer == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the custom resources are not served")
}

// createPods creates a pod of each Deployment as its controller would, in a dry run: admission decides about its
// priority class and its security context.
func createPods(t *testing.T, list []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range list {
		if object.GetKind() != "Deployment" {
			continue
		}
		template, _, err := unstructured.NestedMap(object.Object, "spec", "template")
		must(t, err)
		var pod corev1.Pod
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod))
		pod.GenerateName = object.GetName() + "-"
		created, err := shared.Client.CoreV1().Pods(object.GetNamespace()).Create(t.Context(), &pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		// Nothing counts the objects of a quota here, so one that was just created allows no pod yet.
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "status unknown for quota") {
			continue
		}
		if err != nil {
			t.Errorf("a pod of %s: %v", object.GetName(), err)
		} else if created.Spec.PriorityClassName == "system-cluster-critical" && (created.Spec.Priority == nil || *created.Spec.Priority != 2_000_000_000) {
			t.Errorf("a pod of %s has priority %v", object.GetName(), created.Spec.Priority)
		}
	}
}
