/** From a report of outcomes to the policy that observes them, without sockets. */

import { checkPurpose, type Note, versionsOf } from '../answer.js';
import type { Backend } from '../backend.js';
import { CallError } from '../errors.js';
import {
  type Outcome as OutcomeMessage,
  OutcomeKind,
  ReportRequest,
  type ReportResponse,
} from '../gen/extender/policy/v1beta1/outcomes.js';
import { type Outcome, outcomeOf } from '../outcome.js';
import { decode, decoding } from '../request.js';
import { checkSize, REPORT } from '../size.js';

/** The name of the method for the policy's author. */
export const OBSERVE = 'Observe' as const;

/** Tells the policy, whether it is ready or not: what it has reserved can be undone in any case. */
export async function answerReport(backend: Backend, message: Buffer, note: Note): Promise<ReportResponse> {
  const { policy, declaration } = backend.latest(versionsOf(backend, message));
  if (!declaration.observesOutcomes) {
    throw CallError.notServed('Report');
  }
  // The policy is told nothing of a request that is invalid.
  for (const outcome of observedIn(message, note)) {
    await policy.observe(outcome);
  }
  return {};
}

function observedIn(message: Buffer, note: Note): Outcome[] {
  const { call, outcomes } = decoding(() => {
    checkSize(message, REPORT);
    return decode(ReportRequest, message);
  });
  if (call === undefined) {
    throw CallError.missing('call');
  }
  note('extender.call.id', call.id);
  checkPurpose(call, false);
  if (outcomes.length === 0) {
    throw CallError.missing('outcomes');
  }
  return outcomes.map(checked);
}

function checked(outcome: OutcomeMessage, position: number): Outcome {
  const { call, namespace, name, uid, kind, node } = outcome;
  const isBound = kind === OutcomeKind.BOUND;
  const fields = Object.entries({ call, namespace, name, uid, kind, ...(isBound ? { node } : {}) });
  const missing = fields.find(([, value]) => value === '' || value === OutcomeKind.UNSPECIFIED);
  if (missing !== undefined) {
    throw CallError.invalid(
      `outcomes[${String(position)}].${missing[0]} is missing; each outcome has its call, its kind and the pod, and OUTCOME_KIND_BOUND the node`,
    );
  }
  return outcomeOf(outcome);
}
