package io.extendergateway.policy;

/** What answers calls: one {@link Policy}, or a {@link Backend}, which has one for each call. */
public sealed interface Source permits Policy, Backend {}
