package product

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/binaries"
)

const (
	reservationsPath = "/apis/scheduling.extender-gateway.io/v1alpha1/reservations"
	crdsPath         = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// Reservation is the API object, as far as tests read and write it.
type Reservation struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       ReservationSpec   `json:"spec"`
	Status     ReservationStatus `json:"status,omitzero"`
}

// ReservationSpec says how much is reserved, and for whom.
type ReservationSpec struct {
	Template     corev1.PodTemplateSpec `json:"template"`
	Owners       []ReservationOwners    `json:"owners"`
	TTL          string                 `json:"ttl,omitempty"`
	AllocateOnce *bool                  `json:"allocateOnce,omitempty"`
	// AllocatePolicy is "Aligned" or "Restricted", or "" for the default.
	AllocatePolicy string `json:"allocatePolicy,omitempty"`
}

// ReservationOwners are pods that may use the room.
type ReservationOwners struct {
	LabelSelector metav1.LabelSelector `json:"labelSelector"`
	Namespaces    []string             `json:"namespaces"`
}

// ReservationStatus is written by the policy.
type ReservationStatus struct {
	Phase       string              `json:"phase,omitempty"`
	NodeName    string              `json:"nodeName,omitempty"`
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	Owners      []struct {
		Name string `json:"name"`
	} `json:"owners,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NewReservation makes a Reservation of these resources for pods of these namespaces. Its placeholder is in the first one.
func NewReservation(name string, requests corev1.ResourceList, selector metav1.LabelSelector, namespaces ...string) Reservation {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0]}}
	template.Spec.Containers = []corev1.Container{{Name: "room", Resources: corev1.ResourceRequirements{Requests: requests}}}
	return Reservation{
		APIVersion: "scheduling.extender-gateway.io/v1alpha1", Kind: "Reservation",
		Metadata: metav1.ObjectMeta{Name: name},
		Spec:     ReservationSpec{Template: template, Owners: []ReservationOwners{{selector, namespaces}}},
	}
}

// Reservations are those of an apiserver.
type Reservations struct{ rest rest.Interface }

// InstallReservations installs the API object where it is not yet, and returns when it is served.
func InstallReservations(ctx context.Context, client kubernetes.Interface) (*Reservations, error) {
	r := &Reservations{client.CoreV1().RESTClient()}
	module, err := binaries.ModuleDir()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(module), "deploy", "chart", "files", "reservation-crd.yaml"))
	if err != nil {
		return nil, err
	}
	crd, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	if err := r.write(ctx, r.rest.Post().AbsPath(crdsPath), "application/json", crd); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, last = r.List(ctx)
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait until Reservations are served: %w", errors.Join(err, last))
	}
	return r, nil
}

// Create creates a Reservation. Its status is written only if it has a phase: a policy then finds it as if another replica
// had written it.
func (r *Reservations) Create(ctx context.Context, reservation Reservation) error {
	text, err := json.Marshal(reservation)
	if err != nil {
		return err
	}
	if err := r.write(ctx, r.rest.Post().AbsPath(reservationsPath), "application/json", text); err != nil || reservation.Status.Phase == "" {
		return err
	}
	// Whatever the controller has written in between: it may have seen the Reservation already.
	if text, err = json.Marshal(map[string]any{"status": reservation.Status}); err != nil {
		return err
	}
	status := r.rest.Patch(types.MergePatchType).AbsPath(reservationsPath, reservation.Metadata.Name, "status")
	return r.write(ctx, status, string(types.MergePatchType), text)
}

func (r *Reservations) write(ctx context.Context, request *rest.Request, contentType string, body []byte) error {
	_, err := request.Body(body).SetHeader("Content-Type", contentType).DoRaw(ctx)
	return err
}

// List returns all Reservations.
func (r *Reservations) List(ctx context.Context) ([]Reservation, error) {
	text, err := r.rest.Get().AbsPath(reservationsPath).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []Reservation }
	return list.Items, json.Unmarshal(text, &list)
}

// Delete deletes a Reservation.
func (r *Reservations) Delete(ctx context.Context, name string) error {
	return r.rest.Delete().AbsPath(reservationsPath, name).Do(ctx).Error()
}

// Expire ends the time of a Reservation without a ttl.
func (r *Reservations) Expire(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"spec": {"expires": %q}}`, time.Now().UTC().Format(time.RFC3339))
	return r.rest.Patch(types.MergePatchType).AbsPath(reservationsPath, name).Body([]byte(patch)).Do(ctx).Error()
}

// DeleteAll deletes all Reservations.
func (r *Reservations) DeleteAll(ctx context.Context) error {
	return r.rest.Delete().AbsPath(reservationsPath).Do(ctx).Error()
}
