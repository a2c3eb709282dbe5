/** How a policy is told of the ends of attempts to place pods. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';

import {
  type Outcome as OutcomeMessage,
  OutcomeKind,
  ReportRequest,
  type ReportResponse,
} from '../src/gen/extender/policy/v1beta1/outcomes.js';
import { Purpose } from '../src/gen/extender/policy/v1beta1/policy.js';
import { args, Backend, Info, NotReady, type Outcome, Policy, Verb, Verdict } from '../src/index.js';
import { observe } from '../src/testing.js';
import { ask, call, failure, getInfo, reason, served, sha256, type Served } from './support.js';

const SERVICE = 'extender.policy.v1beta1.OutcomeService';
const WATCH = 'extender.policy.v1beta1.WatchService';

/** Remembers what it is told, also while it is not ready. */
class Observer extends Policy {
  readonly told: Outcome[] = [];

  override info(): Info {
    return new Info('observer', '1').filters(Verb.perNode().sideEffects()).observesOutcomes();
  }

  override ready(): void {
    throw new NotReady('no data yet');
  }

  override filter(): Verdict {
    return Verdict.accept;
  }

  override async observe(outcome: Outcome): Promise<void> {
    if (outcome.uid === 'away') {
      throw new NotReady('the store is away');
    }
    // The later ones would overtake the first one.
    await wait(this.told.length === 0 ? 20 : 0);
    this.told.push(outcome);
    if (outcome.uid === 'broken') {
      throw new Error('secret');
    }
  }
}

type Given = Parameters<typeof ReportRequest.fromPartial>[0];

const CALL = { ...call(), reads: Buffer.alloc(0) };
const pod = { call: 'c-7', namespace: 'shop', name: 'p', uid: 'u' };
const bound = { ...pod, kind: OutcomeKind.BOUND, node: 'n' };

function report({ outcomes: client }: Served, given: Given): Promise<ReportResponse> {
  const request = ReportRequest.fromPartial({ call: CALL, outcomes: [bound], ...given });
  return ask<ReportRequest, ReportResponse>(client, client.report.bind(client), request);
}

test('a policy is told of outcomes in their order, whatever the purpose', async () => {
  const policy = new Observer();
  const backend = await served(policy);
  assert.deepEqual((await getInfo(backend)).services, [SERVICE, WATCH]);
  const kinds = [OutcomeKind.NOT_BOUND, OutcomeKind.SUPERSEDED, OutcomeKind.DELETED, 77 as OutcomeKind];
  const outcomes = [bound, ...kinds.map((kind) => ({ ...pod, kind }))];
  assert.deepEqual(await report(backend, { outcomes }), {});
  assert.deepEqual(policy.told, [
    { ...pod, kind: 'bound', node: 'n' },
    { ...pod, kind: 'notBound' },
    { ...pod, kind: 'superseded' },
    { ...pod, kind: 'deleted' },
    { ...pod, kind: 'superseded' },
  ]);
  await report(backend, { call: { ...CALL, purpose: Purpose.SHADOW } });
  assert.equal(policy.told.length, 6);
});

test('a request that is invalid names the field, and has no effect', async () => {
  const policy = new Observer();
  const backend = await served(policy);
  const after = (given: Partial<OutcomeMessage>): Given => ({
    outcomes: [bound, { ...bound, ...given }],
  });
  const cases: [Given, string][] = [
    [{ call: undefined }, 'call'],
    [{ call: { ...CALL, purpose: Purpose.UNSPECIFIED } }, 'call.purpose'],
    [{ outcomes: [] }, 'outcomes'],
    [after({ call: '' }), 'outcomes[1].call'],
    [after({ namespace: '' }), 'outcomes[1].namespace'],
    [after({ name: '' }), 'outcomes[1].name'],
    [after({ uid: '' }), 'outcomes[1].uid'],
    [after({ kind: OutcomeKind.UNSPECIFIED }), 'outcomes[1].kind'],
    [after({ node: '' }), 'outcomes[1].node'],
  ];
  for (const [given, field] of cases) {
    assert.equal(await reason(report(backend, given)), 'INVALID_ARGUMENT ERROR_REASON_INVALID_REQUEST');
    assert.ok((await failure(report(backend, given))).startsWith(`INVALID_ARGUMENT: ${field} is missing`));
  }
  assert.deepEqual(policy.told, []);
});

test('a failure to observe is an error without its text, and later requests are answered', async () => {
  const backend = await served(new Observer());
  const told = (uid: string): Promise<string> => failure(report(backend, { outcomes: [{ ...bound, uid }] }));
  assert.equal(await told('broken'), "INTERNAL: observe failed (Error); see the policy's log");
  assert.equal(await told('broken'), "INTERNAL: observe failed (Error); see the policy's log");
  assert.equal(backend.log.length, 1);
  assert.match(backend.log[0] ?? '', /Error: secret\n/);
  assert.equal(await told('away'), 'UNAVAILABLE: the store is away');
  assert.equal(await told('u'), 'OK');
});

test('outcomes are those of the policy for the args', async () => {
  const policies = new Map<string, Observer>();
  const backend = await served(
    Backend.configured(args.object({ name: args.string() }), ({ name }) => {
      const policy = new Observer();
      policies.set(name, policy);
      return policy;
    }),
  );
  const json = Buffer.from('{"name":"one"}');
  const named = { ...CALL, argsSha256: sha256(json) };
  assert.equal(
    await reason(report(backend, { call: named })),
    'FAILED_PRECONDITION ERROR_REASON_ARGS_UNKNOWN',
  );
  assert.equal(await reason(report(backend, { call: { ...named, args: json } })), 'OK');
  assert.equal(await reason(report(backend, { call: named })), 'OK');
  assert.deepEqual(
    [...policies].map(([name, { told }]) => [name, told.length]),
    [['one', 2]],
  );
});

test('outcomes are declared, with a method', async () => {
  class Silent extends Policy {
    constructor(private readonly declared = new Info('silent', '1').filters(Verb.perNode())) {
      super();
    }

    override info(): Info {
      return this.declared;
    }

    override filter(): Verdict {
      return Verdict.accept;
    }
  }
  const silent = new Silent();
  const backend = await served(silent);
  assert.deepEqual((await getInfo(backend)).services, [WATCH]);
  assert.match(await failure(report(backend, {})), /^UNIMPLEMENTED: this policy does not serve Report/);
  await silent.observe({ ...pod, kind: 'deleted' });
  assert.throws(() => Backend.of(new Silent(silent.info().observesOutcomes())), {
    message:
      'invalid policy info: Silent declares Info.observesOutcomes and has no method for it; write observe(outcome), or remove the declaration',
  });
});

test('outcomes can be tried without a server', async () => {
  const policy = new Observer();
  const outcomes: Outcome[] = [
    { ...pod, kind: 'bound', node: 'n' },
    { ...pod, kind: 'deleted' },
  ];
  await observe(policy, ...outcomes);
  assert.deepEqual(policy.told, outcomes);
  await assert.rejects(observe(policy, { ...pod, uid: 'broken', kind: 'notBound' }), {
    message: 'observe failed: Error: secret',
  });
  await assert.rejects(observe(policy, { ...pod, kind: 'bound' }), /outcomes\[0\]\.node is missing/);
});
