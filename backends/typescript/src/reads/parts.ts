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
  usage: NodeNumber.USAGE,
  rawJson: NodeNumber.RAW_JSON,
  images: NodeNumber.IMAGES,
  systemInfo: NodeNumber.SYSTEM_INFO,
  addresses: NodeNumber.ADDRESSES,
  providerId: NodeNumber.PROVIDER_ID,
  nominated: NodeNumber.NOMINATED,
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
  rawJson: PodNumber.RAW_JSON,
  containers: PodNumber.CONTAINERS,
  podAffinity: PodNumber.POD_AFFINITY,
  topologySpread: PodNumber.TOPOLOGY_SPREAD,
  resourceClaims: PodNumber.RESOURCE_CLAIMS,
  podGroupName: PodNumber.POD_GROUP_NAME,
  runtimeClassName: PodNumber.RUNTIME_CLASS_NAME,
  preemptionPolicy: PodNumber.PREEMPTION_POLICY,
  serviceAccountName: PodNumber.SERVICE_ACCOUNT_NAME,
} as const;

/** The parts that {@link Reads.everything} has without a declaration of their own. */
export const INCLUDED_PARTS = {
  node: without(NODE_PARTS, ['usage', 'nominated', 'rawJson', 'images']),
  pod: without(POD_PARTS, ['identity', 'rawJson']),
} as const;

/**
 * A part of a node besides labels and annotations. Each is the property of {@link Node} with the same name. `usage` and
 * `nominated` need a gateway that watches pods, and `rawJson`, several kilobytes for each node, is not for a pure verb. For
 * `rawJson` and `images` the gateway keeps the JSON of all nodes.
 */
export type NodePart = keyof typeof NODE_PARTS;

/**
 * A part of a pod besides labels and annotations. Each is the property of {@link Pod} with the same name; `identity` is
 * the name, the UID, the time of creation, and the claims whose name is derived from the pod's. `identity` and `rawJson`
 * are not for a pure verb.
 */
export type PodPart = keyof typeof POD_PARTS;

function without<Part extends string>(
  parts: Readonly<Record<Part, number>>,
  excluded: readonly NoInfer<Part>[],
): ReadonlySet<number> {
  const numbers = new Set(Object.values<number>(parts));
  excluded.forEach((part) => numbers.delete(parts[part]));
  return numbers;
}
