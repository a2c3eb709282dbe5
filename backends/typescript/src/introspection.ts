/** What a policy shows people of its internal state, at paths below the gateway's admin address. */

import { byteLength, quoted } from './text.js';

/** Limits of the contract. */
const MAX_PATHS = 64;
const MAX_TEXT_BYTES = 256;

const PATH = /^(?:\/(?:[A-Za-z0-9._~-]+|:[A-Za-z][A-Za-z0-9_]*))+$/;
// eslint-disable-next-line no-control-regex -- a description is one line
const CONTROL = /[\0-\x1f\x7f\x85\u2028\u2029]/;

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
    const named = this.segments.filter((segment) => segment.startsWith(':'));
    this.parameters = named.map((segment) => segment.slice(1));
  }

  get segments(): readonly string[] {
    return this.path.split('/');
  }

  /** The path without the names of its parameters: paths with the same one match the same URLs. */
  get pattern(): string {
    return this.segments.map((segment) => (segment.startsWith(':') ? ':' : segment)).join('/');
  }
}

/** All mistakes of the paths, one sentence each. The gateway would leave out a wrong path, and log it. */
export function pathMistakes(shown: readonly Shown[]): string[] {
  const count = shown.length;
  const tooMany =
    count > MAX_PATHS
      ? [
          `${String(count)} paths are shown; expected at most ${String(MAX_PATHS)}, use parameters and the query`,
        ]
      : [];
  const each = shown.flatMap((entry) =>
    entryMistakes(entry).map((mistake) => `the path ${quoted(entry.path)} ${mistake}`),
  );
  return [...tooMany, ...each, ...ambiguities(shown)];
}

function entryMistakes({ path, description, show, parameters, segments }: Shown): string[] {
  const found: string[] = [];
  if (!PATH.test(path)) {
    found.push(
      'is malformed; expected segments such as /quotas/:namespace, of letters, digits, "-", ".", "_" and "~", or a colon and the name of a parameter, a letter with further letters, digits and "_"',
    );
  }
  for (const segment of new Set(segments.filter((text) => text === '.' || text === '..'))) {
    found.push(`has the segment ${quoted(segment)}, which clients remove from a URL; use another text`);
  }
  for (const [what, text] of [
    ['', path],
    ['a description of ', description],
  ] as const) {
    if (byteLength(text) > MAX_TEXT_BYTES) {
      found.push(`has ${what}${String(byteLength(text))} bytes; expected at most ${String(MAX_TEXT_BYTES)}`);
    }
  }
  if (CONTROL.test(description)) {
    found.push('has a description with a line break or another control character; expected one line');
  }
  for (const name of new Set(parameters.filter((text, at) => parameters.indexOf(text) !== at))) {
    found.push(`has the parameter ${quoted(name)} more than once; give each another name`);
  }
  if (typeof (show as unknown) !== 'function') {
    found.push('has no function; Info.shows needs one that returns what the path shows');
  }
  return found;
}

/** A URL that matches both of two paths could be answered by either. */
function ambiguities(shown: readonly Shown[]): string[] {
  const first = new Map<string, string>();
  return shown.flatMap(({ path, pattern }) => {
    const other = first.get(pattern);
    if (other === undefined) {
      first.set(pattern, path);
      return [];
    }
    return other === path
      ? [`the path ${quoted(path)} is shown twice; remove one`]
      : [`the paths ${quoted(other)} and ${quoted(path)} differ only in the names of parameters; remove one`];
  });
}
