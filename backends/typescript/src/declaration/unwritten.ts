/** Which declared verbs have no method: the defaults of {@link Policy} are for those that are not declared. */

import { Policy } from '../policy.js';
import type { VerbName } from './names.js';

/** What declares a verb, and the methods that answer it, of which one is enough. */
const METHODS: Readonly<Record<VerbName, readonly [declared: string, ...methods: string[]]>> = {
  Filter: ['filters', 'filter(pod, node)', 'filterAll(pod, nodes)'],
  Score: ['scores', 'score(pod, node)', 'scoreAll(pod, nodes)'],
  Preempt: ['preempts', 'preempt(pod, candidate)', 'preemptAll(pod, candidates)'],
  Bind: ['binds', 'bind(ask)'],
  BeforeFilter: ['beforeFilter', 'beforeFilter(pod)'],
  BeforeFilterNodes: ['beforeFilterNodes', 'beforeFilterNode(pod, node)', 'beforeFilterNodes(pod, nodes)'],
  BeforeScore: ['beforeScore', 'beforeScore(pod, nodes)'],
};

/** One sentence for each of these verbs that the policy has no method for. */
export function unwritten(policy: Policy, served: Iterable<VerbName>): string[] {
  return [...served].flatMap((verb) => {
    const [declared, ...methods] = METHODS[verb];
    const names = methods.map((signature) => signature.replace(/\(.*/, ''));
    const isWritten = names.some((name) => Reflect.get(policy, name) !== Reflect.get(Policy.prototype, name));
    const remedy = `write ${methods.join(' or ')}, or remove the declaration`;
    return isWritten
      ? []
      : [`${policy.constructor.name} declares Info.${declared} and has no method for it; ${remedy}`];
  });
}
