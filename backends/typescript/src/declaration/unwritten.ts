/** What is declared and has no method: the defaults of {@link Policy} are for what is not declared. */

import type { InfoFields } from '../info.js';
import { Policy } from '../policy.js';
import type { VerbName } from './names.js';

/** What declares a verb or the outcomes, and the methods for it, of which one is enough. */
const METHODS: Readonly<Record<VerbName | 'Report', readonly [declared: string, ...methods: string[]]>> = {
  Filter: ['filters', 'filter(pod, node)', 'filterAll(pod, nodes)'],
  Score: ['scores', 'score(pod, node)', 'scoreAll(pod, nodes)'],
  Preempt: ['preempts', 'preempt(pod, candidate)', 'preemptAll(pod, candidates)'],
  Bind: ['binds', 'bind(ask)'],
  BeforeFilter: ['beforeFilter', 'beforeFilter(pod)'],
  BeforeFilterNodes: ['beforeFilterNodes', 'beforeFilterNode(pod, node)', 'beforeFilterNodes(pod, nodes)'],
  BeforeScore: ['beforeScore', 'beforeScore(pod, nodes)'],
  Report: ['observesOutcomes', 'observe(outcome)'],
};

/** One sentence for each declaration that the policy has no method for. */
export function unwritten(policy: Policy, { served, observesOutcomes }: InfoFields): string[] {
  const declarations = [...served.keys(), ...(observesOutcomes ? (['Report'] as const) : [])];
  return declarations.flatMap((name) => {
    const [declared, ...methods] = METHODS[name];
    const names = methods.map((signature) => signature.replace(/\(.*/, ''));
    const isWritten = names.some((name) => Reflect.get(policy, name) !== Reflect.get(Policy.prototype, name));
    const remedy = `write ${methods.join(' or ')}, or remove the declaration`;
    return isWritten
      ? []
      : [`${policy.constructor.name} declares Info.${declared} and has no method for it; ${remedy}`];
  });
}
