/** Amounts of resources, and the parts of nodes and pods that contain them. */

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
