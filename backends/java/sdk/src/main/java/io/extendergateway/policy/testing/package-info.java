/** Tries a policy on pods and nodes without a server, through the same code that answers calls. */
package io.extendergateway.policy.testing;
