package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

const (
	// maxKeptAge is the protocol's: a policy is called again, so that one that is not as pure as it says is noticed.
	maxKeptAge = time.Second
	// maxKept bounds the answers that are kept. One takes five bytes for a node, and 50 for each that is left if PreFilter names them.
	maxKept = 256
	// maxSigned bounds the classes of pods that get a signature.
	maxSigned = 4096
	// maxClassings is for backends that are only interested in some pods: what is read differs between pods.
	maxClassings = 4
	// holdTimeout is longer than a gateway takes to answer Hold. One that does not is not relied on any longer.
	holdTimeout = 3 * time.Second
	// tokenVolume is the beginning of the name of a volume that the apiserver adds to each pod.
	tokenVolume = "kube-api-access-"
)

// kept are answers that hold for several pods: PreFilter gives them without a call while a call of Hold is in progress, whose end
// says that something has changed.
type kept struct {
	gateway *gateway

	mu sync.Mutex
	// state is the gateway's, and nodesAt the resource version of nodes in it. state is 0 while no call of Hold is in progress.
	state, nodesAt uint64
	// isHolding is true from the first answer that is kept until none is fresh.
	isHolding bool
	classings []classing
	answers   map[string]keptAnswer
	// freshUntil is when the last answer is too old.
	freshUntil time.Time
	// signed are the classes of pods whose latest answer was kept, with scores that do not depend on the nodes that are left.
	signed sets.Set[string]
}

type keptAnswer struct {
	*answer
	state uint64
	until time.Time
}

func newKept(g *gateway) *kept {
	return &kept{gateway: g, answers: map[string]keptAnswer{}, signed: sets.New[string]()}
}

// of is the answer for the pod about the list, nil if there is none that holds. nodesAt is the version of nodes that kube-scheduler
// knows: an answer does not count if the gateway may not have seen it.
func (k *kept) of(pod *corev1.Pod, list *nodeList, nodesAt uint64) *answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == 0 || nodesAt > k.nodesAt {
		return nil
	}
	for _, classing := range k.classings {
		found, isKept := k.answers[classing.of(pod)]
		if isKept && found.state == k.state && found.list == list && time.Now().Before(found.until) {
			return found.answer
		}
	}
	return nil
}

// put keeps the answer if the gateway says that it holds for other pods.
func (k *kept) put(pod *corev1.Pod, a *answer, keep *door.Keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, known := range k.classings {
		k.signed.Delete(known.of(pod))
	}
	if keep == nil {
		return
	}
	c := classingOf(keep)
	if !slices.ContainsFunc(k.classings, c.equal) {
		if len(k.classings) == maxClassings {
			k.classings = k.classings[:0]
			clear(k.signed)
		}
		k.classings = append(k.classings, c)
	}
	now, class := time.Now(), c.of(pod)
	// Those of other nodes would keep all of an earlier snapshot in memory.
	maps.DeleteFunc(k.answers, func(_ string, other keptAnswer) bool {
		return other.list != a.list || other.state != keep.GetState() || now.After(other.until)
	})
	if len(k.answers) >= maxKept {
		clear(k.answers)
	}
	k.freshUntil = now.Add(maxKeptAge)
	k.answers[class] = keptAnswer{answer: a, state: keep.GetState(), until: k.freshUntil}
	if a.isScored {
		if len(k.signed) >= maxSigned {
			clear(k.signed)
		}
		k.signed.Insert(class)
	}
	if !k.isHolding {
		k.isHolding = true
		go k.hold()
	}
}

// hold follows the gateway's state while answers are kept.
func (k *kept) hold() {
	defer func() {
		if cause := recover(); cause != nil {
			// Without it nothing is kept, which is slower and otherwise the same.
			klog.Background().Error(fmt.Errorf("plugin %s failed while it followed the gateway's state: %v", Name, cause), "No answers are kept")
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.state, k.isHolding = 0, false
		clear(k.answers)
	}()
	known := &door.HoldResponse{}
	for k.isWanted() {
		answered, err := k.gateway.hold(known)
		if err != nil {
			return
		}
		known = answered
		k.mu.Lock()
		k.state, k.nodesAt = known.GetState(), known.GetNodesAt()
		k.mu.Unlock()
	}
}

func (k *kept) isWanted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.freshUntil)
}

// hold waits until the gateway is in another state than the known one, or some time has passed.
func (g *gateway) hold(known *door.HoldResponse) (*door.HoldResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), holdTimeout)
	defer cancel()
	return g.client.Hold(ctx, &door.HoldRequest{State: known.GetState(), NodesAt: known.GetNodesAt()})
}

// unsigned is why a pod has no signature.
const unsigned = "the policies may decide each pod on its own"

// SignPod implements framework.SignPlugin: kube-scheduler takes the scores of the pod before for one with the same signature, which pods
// of one template get if the answer about such a pod was kept. It signs pods when they are queued; if policies change until they are
// tried, Filter still has the answer for the pod itself.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !p.kept.signs(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, unsigned)
	}
	return []fwk.SignFragment{{Key: Name, Value: templateOf(pod)}}, nil
}

func (k *kept) signs(pod *corev1.Pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.classings, func(c classing) bool { return k.signed.Has(c.of(pod)) })
}

// classing tells which pods get the same answer: those that are equal in what was read of them.
type classing struct {
	namespace, template bool
	labels              []string
}

func classingOf(keep *door.Keep) classing {
	return classing{namespace: keep.GetNamespace(), template: keep.GetTemplate(), labels: keep.GetLabels()}
}

func (c classing) equal(other classing) bool {
	return c.namespace == other.namespace && c.template == other.template && slices.Equal(c.labels, other.labels)
}

// of is equal for pods of the same class, and different for those of different ones and of other classings.
func (c classing) of(pod *corev1.Pod) string {
	if c.template {
		return templateOf(pod)
	}
	var class strings.Builder
	if c.namespace {
		fmt.Fprintf(&class, "n%q", pod.Namespace)
	}
	for _, key := range c.labels {
		if value, exists := pod.Labels[key]; exists {
			fmt.Fprintf(&class, "l%q%q", key, value)
		} else {
			fmt.Fprintf(&class, "-%q", key)
		}
	}
	return class.String()
}

// templateOf is a hash of all that pods of one template share.
func templateOf(pod *corev1.Pod) string {
	spec := pod.Spec
	spec.Volumes = slices.Clone(spec.Volumes)
	for i := range spec.Volumes {
		if strings.HasPrefix(spec.Volumes[i].Name, tokenVolume) {
			spec.Volumes[i].Name = tokenVolume
		}
	}
	spec.Containers, spec.InitContainers = withoutToken(spec.Containers), withoutToken(spec.InitContainers)
	shared := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences},
		Spec:       spec,
	}
	// A pod that cannot be encoded was never sent.
	encoded, _ := json.Marshal(&shared)
	hash := sha256.Sum256(encoded)
	return "t" + hex.EncodeToString(hash[:])
}

// withoutToken are the containers with the mounts of the token's volume named alike.
func withoutToken(containers []corev1.Container) []corev1.Container {
	named := slices.Clone(containers)
	for i := range named {
		mounts := slices.Clone(named[i].VolumeMounts)
		for j := range mounts {
			if strings.HasPrefix(mounts[j].Name, tokenVolume) {
				mounts[j].Name = tokenVolume
			}
		}
		named[i].VolumeMounts = mounts
	}
	return named
}
