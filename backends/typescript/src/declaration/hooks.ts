/** What the contract does not allow a hook to declare. */

import { CHANGED_NODE_PARTS, CHANGED_PARTS, CHANGED_POD_PARTS, type Hook } from '../hook.js';
import { type Info, Verb } from '../info.js';
import type { HookName } from './names.js';
import { pureMistakes, readsMistakes, usageMistakes } from './verbs.js';

/** The names of hooks as a policy writes them. */
const METHODS = {
  BeforeFilter: 'beforeFilter',
  BeforeFilterNodes: 'beforeFilterNodes',
  BeforeScore: 'beforeScore',
} as const satisfies Record<HookName, string>;

/** What each hook can change. */
const CHANGEABLE: Readonly<Record<HookName, { parts: object; what: string }>> = {
  BeforeFilter: { parts: CHANGED_POD_PARTS, what: 'the pod alone' },
  BeforeFilterNodes: { parts: CHANGED_NODE_PARTS, what: 'nodes alone' },
  BeforeScore: { parts: CHANGED_PARTS, what: 'pod and nodes' },
};

/** All mistakes of a hook, one sentence each. The gateway would reject the hook, and log the first one. */
export function hookMistakes(hookName: HookName, hook: Hook, info: Info): string[] {
  const name = METHODS[hookName];
  const isOfPod = hookName === 'BeforeFilter';
  const found = [...changesMistakes(hookName, hook), ...(isOfPod ? noNodesMistakes(hook) : [])];
  // What is wrong about nodes is reported once.
  const verb = isOfPod ? withoutNodes(hook.fields.verb) : hook.fields.verb;
  return [
    ...found.map((mistake) => `${name} ${mistake}`),
    ...usageMistakes(name, verb, 'Hook'),
    ...pureMistakes(name, verb, info, 'Hook'),
    ...readsMistakes(name, verb),
  ];
}

/** The same without what concerns nodes, besides the reads. */
function withoutNodes({ fields: { isPure, declared } }: Verb): Verb {
  const verb = isPure ? Verb.perNode().pure() : Verb.perNode();
  return declared === undefined ? verb : verb.reads(declared);
}

function changesMistakes(name: HookName, { fields: { changes, verb } }: Hook): string[] {
  const { parts, what } = CHANGEABLE[name];
  const found = changes.filter((part) => !Object.hasOwn(parts, part));
  const mistakes = found.map(
    (part) => `cannot change '${part}'; it changes ${what}: ${Object.keys(parts).join(', ')}`,
  );
  if (changes.length === 0) {
    mistakes.push("changes nothing; name what it changes, as in Hook.changes('nodeLabels')");
  }
  const ofPod = changes.filter((part) => Object.hasOwn(CHANGED_POD_PARTS, part));
  if (name === 'BeforeScore' && verb.fields.isPure && ofPod.length > 0) {
    mistakes.push(
      `is pure and changes '${ofPod.join("', '")}', but a pure one changes nodes alone; remove one`,
    );
  }
  return mistakes;
}

/** What only a hook about nodes can declare. */
function noNodesMistakes({ fields: { verb, isViewDeclared } }: Hook): string[] {
  const { isWholeSet, wantsUsage, declared } = verb.fields;
  const excluded: [boolean, string][] = [
    [isWholeSet, 'has Hook.wholeSet'],
    [isViewDeclared, 'has Hook.view'],
    [wantsUsage, 'has Hook.usage'],
    [declared?.declaresNodes === true, 'reads nodes'],
  ];
  const found = excluded.filter(([isThere]) => isThere);
  return found.map(
    ([, what]) => `${what}, but is not told about nodes; remove that, or use beforeFilterNodes`,
  );
}
