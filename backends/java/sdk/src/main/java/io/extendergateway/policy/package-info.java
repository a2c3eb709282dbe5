/**
 * Policies for the extender gateway: which nodes a pod may not run on, how good the others are,
 * which pods may be evicted, and how a pod is bound.
 *
 * <p>Implement {@link io.extendergateway.policy.Policy}, describe it with {@link
 * io.extendergateway.policy.Info}, and serve it with {@link
 * io.extendergateway.policy.PolicyServer}. Test it with {@link
 * io.extendergateway.policy.testing.Testing}. Amounts ({@link
 * io.extendergateway.policy.v1beta1.Resources}) are {@code long}s in the units of the contract:
 * thousandths of a CPU, bytes, whole pods and devices.
 */
package io.extendergateway.policy;
