package plugin

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Recovered turns a panic at an extension point into an error of the attempt: it must not end kube-scheduler.
func Recovered(ctx context.Context, point string, status **fwk.Status) {
	cause := recover()
	if cause == nil {
		return
	}
	err := fmt.Errorf("plugin %s failed in %s: %v: report it to the developers, with the stack in kube-scheduler's log", Name, point, cause)
	klog.FromContext(ctx).Error(err, "The attempt to place the pod fails", "stack", string(debug.Stack()))
	*status = fwk.AsStatus(err)
}

// logInterval is between two log lines about the same.
const logInterval = 10 * time.Second

// logLimit drops log lines that repeat the one before.
type logLimit struct {
	mu   sync.Mutex
	next time.Time
}

// allows reports whether a line may be written now, and counts it.
func (l *logLimit) allows() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.next) {
		return false
	}
	l.next = now.Add(logInterval)
	return true
}
