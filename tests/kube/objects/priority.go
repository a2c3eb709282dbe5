package objects

import (
	"context"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// CreatePriorityClasses creates classes by name that do not exist yet. A pod can get its priority only by a class.
func CreatePriorityClasses(ctx context.Context, client kubernetes.Interface, values map[string]int32) error {
	for name, value := range values {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
