/** What the contract does not allow a verb or a hook to declare. */

import type { Info, Verb } from '../info.js';

/** The class with which it is declared. */
type Kind = 'Verb' | 'Hook';

/** What is wrong about the declared reads. */
export function readsMistakes(name: string, { fields: { declared, view, isPure } }: Verb): string[] {
  if (declared === undefined) {
    return [];
  }
  const found: string[] = [];
  if (declared.readsNodes && view === 'name') {
    found.push(
      name === 'bind'
        ? 'reads nodes, but is sent only their names; declare what it reads of the pod'
        : "reads nodes and has the view 'name'; use the view 'facts'",
    );
  }
  if (declared.readsIdentity && isPure) {
    found.push(
      "is pure and reads the part 'identity', but a pure verb is not sent the pod's name and UID; remove one",
    );
  }
  if (declared.countsTopologies && name !== 'filter' && name !== 'score') {
    found.push(
      'reads counts by topology, which only filter and score are sent; remove Reads.podsByTopology from its declaration',
    );
  }
  found.push(...declared.mistakes().map((mistake) => `reads: ${mistake}`));
  return found.map((mistake) => `${name} ${mistake}`);
}

/** A view of names works even if the gateway knows no nodes, and so no pods on them. */
export function usageMistakes(
  name: string,
  { fields: { wantsUsage, view } }: Verb,
  kind: Kind = 'Verb',
): string[] {
  return wantsUsage && view === 'name'
    ? [`${name} has ${kind}.usage and the view 'name'; use the view 'facts'`]
    : [];
}

/** What a pure verb excludes: each of these makes an answer depend on more than the cache key. */
export function pureMistakes(name: string, { fields }: Verb, info: Info, kind: Kind = 'Verb'): string[] {
  const excluded: [boolean, string][] = [
    [fields.isWholeSet, `${kind}.wholeSet`],
    [fields.hasSideEffects, 'Verb.sideEffects'],
    [fields.view === 'factsAndRaw', "the view 'factsAndRaw'"],
    [info.fields.rawPod, 'Info.rawPod'],
  ];
  const found = excluded.filter(([isThere]) => fields.isPure && isThere);
  return found.map(([, what]) => `${name} is pure and has ${what}; remove one`);
}
