/** What a policy reads with: the results of declarations. */

/** The labels or the annotations. */
export type MapName = 'label' | 'annotation';

/** A declared key of one map. */
export abstract class Key {
  /** @internal */
  constructor(
    /** @internal */
    readonly map: MapName,
    /** The key itself. */
    readonly text: string,
    /** Its place in the order of declarations. @internal */
    readonly order: number,
  ) {}
}

/** A declared label or annotation of nodes, which {@link Node.get} reads. */
export class NodeKey extends Key {
  /** Keeps keys of nodes and of pods apart. @internal */
  declare protected readonly of: 'node';
}

/** A declared label or annotation of the pod and of victims, which {@link Pod.get} reads. */
export class PodKey extends Key {
  /** @internal */
  declare protected readonly of: 'pod';
}

/** A declared prefix of keys of one map. */
export abstract class Prefix {
  /** @internal */
  constructor(
    /** @internal */
    readonly map: MapName,
    /** The prefix itself. */
    readonly text: string,
  ) {}
}

/** A declared prefix of keys of nodes, which {@link Node.entries} reads. */
export class NodePrefix extends Prefix {
  /** @internal */
  declare protected readonly of: 'node';
}

/** A declared prefix of keys of the pod and of victims, which {@link Pod.entries} reads. */
export class PodPrefix extends Prefix {
  /** @internal */
  declare protected readonly of: 'pod';
}
