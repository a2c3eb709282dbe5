/** The parts of a pod or a node that are read as a whole: everything besides labels and annotations. */

import { NodePart as NodeNumber, PodPart as PodNumber } from '../gen/extender/policy/v1beta1/info.js';

/** The parts of nodes, by their numbers in the contract. */
export const NODE_PARTS = {
  name: NodeNumber.NAME,
  taints: NodeNumber.TAINTS,
  unschedulable: NodeNumber.UNSCHEDULABLE,
  conditions: NodeNumber.CONDITIONS,
  capacity: NodeNumber.CAPACITY,
  allocatable: NodeNumber.ALLOCATABLE,
} as const;

/** The parts of pods, by their numbers in the contract. */
export const POD_PARTS = {
  identity: PodNumber.IDENTITY,
  namespace: PodNumber.NAMESPACE,
  owner: PodNumber.OWNER,
  priority: PodNumber.PRIORITY,
  priorityClass: PodNumber.PRIORITY_CLASS_NAME,
  requests: PodNumber.REQUESTS,
  nonzeroRequests: PodNumber.NONZERO_REQUESTS,
  tolerations: PodNumber.TOLERATIONS,
  nodeSelector: PodNumber.NODE_SELECTOR,
  nodeAffinity: PodNumber.NODE_AFFINITY,
  volumes: PodNumber.VOLUMES,
  schedulerName: PodNumber.SCHEDULER_NAME,
} as const;

/** A part of a node besides labels and annotations. Each is the property of {@link Node} with the same name. */
export type NodePart = keyof typeof NODE_PARTS;

/**
 * A part of a pod besides labels and annotations. Each is the property of {@link Pod} with the same name; `identity` is
 * the name, the UID, and the claims whose name is derived from the pod's, and not for a pure verb.
 */
export type PodPart = keyof typeof POD_PARTS;
