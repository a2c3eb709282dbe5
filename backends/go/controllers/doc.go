// Package controllers runs the controllers of a backend in one of its replicas: the holder of a Lease
// (coordination.k8s.io/v1). All replicas answer calls. It is a module of its own, so that a policy that does not use it has
// no dependency on Kubernetes.
//
//	elected, err := controllers.New(controllers.Config{
//		Lease:       "quota-backend",
//		Controllers: []controllers.Controller{{Name: "quotas", Run: reconcileQuotas}},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	policy.Main(quotas(), policy.WithControllers(elected))
//
// The service account needs the verbs get, create and update for leases in the Lease's namespace.
//
// A manager of controller-runtime, without its own leader election, is one controller. Its Start may be called once, and Run
// is called in each term, so Run makes a manager, and its controllers, each time:
//
//	func run(ctx context.Context) error {
//		patience := 4 * time.Second
//		manager, err := ctrl.NewManager(access, ctrl.Options{
//			GracefulShutdownTimeout: &patience,
//			Controller:              config.Controller{SkipNameValidation: ptr.To(true)},
//		})
//		…
//		return manager.Start(ctx)
//	}
//
// GracefulShutdownTimeout, which is 30 s by default, is less than StopWithin and less than LeaseDuration - RenewDeadline.
// Without SkipNameValidation the second term fails, because the names of the controllers are in use.
//
// # Two writers for a moment
//
// A leader knows only when it last renewed the Lease. It stops its controllers RenewDeadline after that, and the process ends
// if they have not stopped LeaseDuration after that, which is when others take over at the earliest. That excludes nothing:
//
//   - The process can be paused, by the kernel, a debugger, or the move of a virtual machine. When it goes on, its controllers
//     write before its clock is read.
//   - A request can be on its way, or in the queue of the apiserver, when the Lease changes hands.
//   - Clocks can run at different speeds, or stop while a machine sleeps.
//   - Another process can take the Lease, or somebody delete it, before it expires. This leader finds out when it renews, and
//     then its controllers have StopWithin to stop.
//
// So a write of an earlier leader can arrive after one of the next. What such a write may not do must be excluded where it
// is made:
//
//   - Update objects with the resourceVersion that was read, or patch them with it as a precondition: the apiserver refuses
//     with a conflict if anyone has written meanwhile. Read again then, and decide again. Server-side apply with force, and
//     patches without a precondition, exclude nothing.
//   - Create objects under names that follow from what they are for, so that the second create fails with AlreadyExists.
//   - Elsewhere, send [FencingToken] with each write, and let the store refuse a token that is less than the largest one that it
//     has seen. In an object of Kubernetes, write it as an annotation, together with the resourceVersion: a controller that
//     reads a larger token than its own stops.
package controllers
