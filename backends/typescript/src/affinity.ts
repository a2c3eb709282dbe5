/** Affinities and spread constraints as a policy writes them. What {@link Pod.nodeAffinity} and the like return is one. */

import {
  type DeepPartial,
  NodeAffinity,
  type PodAffinity,
  type TopologySpreadConstraint,
} from './gen/extender/policy/v1beta1/pod.js';

/** The nodes that a pod requires and prefers. Mirrors NodeAffinity of k8s.io/api/core/v1. */
export interface Affinity {
  /** Nodes that match one of the terms. Undefined: every node matches. Without terms no node matches. */
  readonly required?: { readonly terms: readonly AffinityTerm[] } | undefined;
  /** Terms with their weights, 1 to 100. */
  readonly preferred?:
    readonly { readonly weight: number; readonly preference: AffinityTerm | undefined }[] | undefined;
}

/** Nodes that match all of these. Without any, no node matches. */
export interface AffinityTerm {
  /** Requirements for labels. */
  readonly matchExpressions?: readonly AffinityRequirement[] | undefined;
  /** Requirements for fields; "metadata.name" is the only one that exists. */
  readonly matchFields?: readonly AffinityRequirement[] | undefined;
}

/** A requirement for the value of one label or field. */
export interface AffinityRequirement {
  readonly key: string;
  /** "In", "NotIn", "Exists", "DoesNotExist", "Gt" or "Lt". */
  readonly operator: string;
  readonly values?: readonly string[] | undefined;
}

/** A pod affinity; what is left out is empty. */
export type PodAffinityGiven = DeepPartial<PodAffinity>;

/** A topology spread constraint; what is left out is empty. */
export type TopologySpreadGiven = DeepPartial<TopologySpreadConstraint>;

/** The contract's message, which shares nothing with what it is made from. */
export function affinityMessage({ required, preferred = [] }: Affinity): NodeAffinity {
  const terms = preferred.map((term) => ({ ...term, preference: term.preference ?? {} }));
  return NodeAffinity.fromPartial({ required, preferred: terms } as Parameters<
    typeof NodeAffinity.fromPartial
  >[0]);
}
