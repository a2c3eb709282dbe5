package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"extender-gateway.io/policy/api/v1alpha1"
)

// assets names a folder with etcd and kube-apiserver, as controller-runtime's envtest uses it.
const assets = "KUBEBUILDER_ASSETS"

// The same with a real kube-apiserver, whose preconditions the other tests imitate.
func TestARealApiserver(t *testing.T) {
	folder := os.Getenv(assets)
	if folder == "" {
		t.Skip("set " + assets + " to a folder with etcd and kube-apiserver")
	}
	client := startControlPlane(t, folder)
	ctx := t.Context()
	for _, name := range []string{"a", "b"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Allocatable = corev1.ResourceList{countResource: resource.MustParse("2"), memoryResource: resource.MustParse("20")}
		node.Status.Capacity = node.Status.Allocatable
		if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := start(t, client)
	// Two of them fit on each of the four GPUs.
	queue := make(chan *corev1.Pod, 12)
	for number := range 12 {
		pod := newPod(fmt.Sprint("pod-", number), 5)
		pod.UID, pod.Namespace = "", "default"
		pod.Spec.Containers[0].Image = "none"
		created, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		queue <- created
	}
	close(queue)
	var callers sync.WaitGroup
	var bound atomic.Int64
	for range 8 {
		callers.Go(func() {
			for pod := range queue {
				for _, node := range []string{"a", "b"} {
					outcome, err := b.bind(pod, node)
					if err != nil {
						continue
					}
					bound.Add(1)
					if again, err := b.bind(pod, node); err != nil || again != outcome {
						t.Errorf("%s again: %v, %v", pod.Name, again, err)
					}
					break
				}
			}
		})
	}
	callers.Wait()
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int64{}
	for _, pod := range pods.Items {
		if holdsGPU(&pod) {
			used[fmt.Sprintf("%s/%d", pod.Spec.NodeName, indexOf(&pod))] += memoryOf(&pod)
		}
	}
	if want := "map[a/0:10 a/1:10 b/0:10 b/1:10]"; fmt.Sprint(used) != want || bound.Load() != 8 {
		t.Errorf("%d pods are bound: %v; want %s", bound.Load(), used, want)
	}
	// As kube-scheduler's bind verb: no purpose but a decision binds.
	call := b.call(v1alpha1.Verb_VERB_BIND)
	call.Purpose = v1alpha1.Purpose_PURPOSE_SHADOW
	if _, err := b.client.Bind(ctx, &v1alpha1.BindRequest{Call: call, Namespace: "default", Name: "x", Uid: "y", Node: "a"}); err == nil {
		t.Error("a shadow call binds")
	}
}

func startControlPlane(t *testing.T, folder string) kubernetes.Interface {
	dir := t.TempDir()
	etcd, peer, secure := freeAddress(t), freeAddress(t), freeAddress(t)
	startProgram(t, dir, filepath.Join(folder, "etcd"),
		"--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+peer,
		"--unsafe-no-fsync")
	token, key := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "service-account.key")
	if err := os.WriteFile(token, []byte("secret,admin,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeKey(t, key)
	_, port, _ := net.SplitHostPort(secure)
	startProgram(t, dir, filepath.Join(folder, "kube-apiserver"),
		"--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+port,
		"--cert-dir="+filepath.Join(dir, "certificates"), "--token-auth-file="+token, "--authorization-mode=AlwaysAllow",
		"--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + secure, BearerToken: "secret", QPS: 1000, Burst: 1000, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		if err == nil {
			return client
		}
		if time.Now().After(deadline) {
			t.Fatalf("kube-apiserver is not ready: %v", err)
		}
	}
}

func startProgram(t *testing.T, dir, program string, arguments ...string) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", program, text[max(0, len(text)-4000):])
		}
		_ = log.Close()
	})
}

func freeAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func writeKey(t *testing.T, file string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
