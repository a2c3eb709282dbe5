/** What a policy shows people of its internal state, at paths below the gateway's admin address. */

/** The names of the parameters of a path: `'namespace'` of `'/quotas/:namespace'`. */
export type ParameterOf<Path extends string> = string extends Path
  ? string
  : Path extends `${infer Head}/${infer Tail}`
    ? ParameterOf<Head> | ParameterOf<Tail>
    : Path extends `:${infer Name}`
      ? Name
      : never;

/** A request for one of the declared paths. */
export interface IntrospectAsk<Parameter extends string = string> {
  /** The path as it is declared, such as "/quotas/:namespace". */
  readonly path: string;
  /** The values of the path's parameters, by their names without colons: all of them, and none is empty. */
  readonly parameters: Readonly<Record<Parameter, string>>;
  /** The query of the URL; of a key that is repeated the last value. */
  readonly query: ReadonlyMap<string, string>;
  /** Aborts when the caller cancels or the deadline passes: pass it to the requests that the policy makes. */
  readonly signal: AbortSignal;
}

/** A declared path. */
export class Shown {
  /** The names of the path's parameters. */
  readonly parameters: readonly string[];

  constructor(
    readonly path: string,
    readonly description: string,
    readonly show: (ask: IntrospectAsk) => unknown,
  ) {
    const named = path.split('/').filter((segment) => segment.startsWith(':'));
    this.parameters = named.map((segment) => segment.slice(1));
  }
}
