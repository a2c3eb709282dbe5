/** The names of verbs. */

/** One of the hooks, by the name of its method. */
export type HookName = 'BeforeFilter' | 'BeforeFilterNodes' | 'BeforeScore';

/** One of the verbs, hooks included, by the name of its method. */
export type VerbName = 'Filter' | 'Score' | 'Preempt' | 'Bind' | HookName;

/** Whether a verb is a hook, which are one method of HookService. */
export function isHook(verb: VerbName): verb is HookName {
  return verb.startsWith('Before');
}
