/** Amounts of resources, and the parts of nodes and pods that contain them. */

import { compareBytes } from './text.js';

/**
 * Amounts in kube-scheduler's own units. They are `bigint`: the contract has integers of 64 bits, of which `number`
 * holds only those up to 2^53 exactly, and the type checker refuses to mix both. Comparisons with numbers are exact and
 * allowed: `allocatable.milliCpu < 4000`. For a share or a score, convert the result: `Number(used * 100n / total)`.
 */
export interface Resources {
  /** Thousandths of a CPU. */
  readonly milliCpu: bigint;
  /** Bytes. */
  readonly memory: bigint;
  /** Bytes. */
  readonly ephemeralStorage: bigint;
  /** Pods. */
  readonly pods: bigint;
  /**
   * All others by name ("example.com/gpu", "hugepages-2Mi"), as whole values. A resource that is missing is not offered,
   * or not requested.
   */
  readonly others: ReadonlyMap<string, bigint>;
}

/** Amounts as a policy or a test writes them; those that are left out are 0. */
export interface Amounts {
  readonly milliCpu?: bigint | number;
  readonly memory?: bigint | number;
  readonly ephemeralStorage?: bigint | number;
  readonly pods?: bigint | number;
  readonly others?: ReadonlyMap<string, bigint> | Readonly<Record<string, bigint | number>>;
}

/** The same for {@link NonZero}. */
export interface NonZeroAmounts {
  readonly milliCpu?: bigint | number;
  readonly memory?: bigint | number;
}

/** CPU and memory as kube-scheduler's scores count them. */
export interface NonZero {
  /** Thousandths of a CPU. */
  readonly milliCpu: bigint;
  /** Bytes. */
  readonly memory: bigint;
}

/** The requests of the pods on a node. */
export interface NodeUsage {
  /** The sums of the requests of the pods; `pods` is their number. */
  readonly requested: Resources;
  /** The same sums with defaults for containers that request nothing. */
  readonly nonzero: NonZero;
}

/** A taint of a node. */
export interface Taint {
  readonly key: string;
  readonly value: string;
  /** "NoSchedule", "PreferNoSchedule" or "NoExecute". */
  readonly effect: string;
}

/** No resources. */
export const NO_RESOURCES: Resources = Object.freeze({
  milliCpu: 0n,
  memory: 0n,
  ephemeralStorage: 0n,
  pods: 0n,
  others: new Map<string, bigint>(),
});

/** No CPU and no memory. */
export const NO_NON_ZERO: NonZero = Object.freeze({ milliCpu: 0n, memory: 0n });

/** All amounts; the others in the order of their names. The map may be changed by its owner, the contract's message. */
export function resourcesOf(amounts: Amounts): Resources & { others: Map<string, bigint> } {
  const { milliCpu = 0, memory = 0, ephemeralStorage = 0, pods = 0, others = {} } = amounts;
  const entries =
    others instanceof Map ? [...(others as ReadonlyMap<string, bigint>)] : Object.entries(others);
  const inOrder = entries.toSorted(([a], [b]) => compareBytes(a, b));
  return {
    milliCpu: BigInt(milliCpu),
    memory: BigInt(memory),
    ephemeralStorage: BigInt(ephemeralStorage),
    pods: BigInt(pods),
    others: new Map(inOrder.map(([name, amount]) => [name, BigInt(amount as bigint | number)])),
  };
}

/** Both amounts. */
export function nonZeroOf({ milliCpu = 0, memory = 0 }: NonZeroAmounts): NonZero {
  return { milliCpu: BigInt(milliCpu), memory: BigInt(memory) };
}
