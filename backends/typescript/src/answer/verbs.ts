/** The verbs and hooks with a request about a pod, and how each is answered. */

import {
  type Answering,
  answerQuestion,
  checkCandidates,
  type Context,
  type Decision,
  filtered,
  preempted,
  scored,
} from '../answer.js';
import type { ChangeResponse } from '../gen/extender/policy/v1beta1/hooks.js';
import type {
  FilterResponse,
  PreemptResponse,
  Result,
  ScoreResponse,
} from '../gen/extender/policy/v1beta1/policy.js';
import type { QuestionVerb } from '../request.js';
import { BEFORE_FILTER, PREEMPT, QUESTION } from '../size.js';
import { beforeFilter, beforeFilterNodes, beforeScore } from './hooks.js';

/** The responses, without their results. */
interface Decisions {
  readonly Filter: Decision<FilterResponse>;
  readonly Score: Decision<ScoreResponse>;
  readonly Preempt: Decision<PreemptResponse>;
  readonly BeforeFilter: Decision<ChangeResponse>;
  readonly BeforeFilterNodes: Decision<ChangeResponse>;
  readonly BeforeScore: Decision<ChangeResponse>;
}

const UNCHANGED: Decision<ChangeResponse> = { pod: undefined, nodes: [] };

const VERBS: { readonly [Verb in QuestionVerb]: Answering<Decisions[Verb]> } = {
  Filter: { shape: QUESTION, none: { rejections: [], scores: undefined }, decide: filtered },
  Score: { shape: QUESTION, none: { scores: undefined }, decide: scored },
  Preempt: { shape: PREEMPT, none: { kept: [] }, check: checkCandidates, decide: preempted },
  BeforeFilter: { shape: BEFORE_FILTER, none: UNCHANGED, decide: beforeFilter },
  BeforeFilterNodes: { shape: QUESTION, none: UNCHANGED, decide: beforeFilterNodes },
  BeforeScore: { shape: QUESTION, none: UNCHANGED, decide: beforeScore },
};

/** The answer to an encoded request of a verb or a hook. */
export function answer<Verb extends QuestionVerb>(
  verb: Verb,
  context: Context,
): Decisions[Verb] & { result: Result } {
  return answerQuestion(verb, context, VERBS[verb]);
}
