/** What is noted of calls: metrics, lines of the log, and what the log lines of a policy carry. */

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { Counter } from 'prom-client';

import { ChangeRequest, type ChangeResponse } from '../src/gen/extender/policy/v1beta1/hooks.js';
import { Verb as VerbNumber } from '../src/gen/extender/policy/v1beta1/info.js';
import {
  OutcomeKind,
  ReportRequest,
  type ReportResponse,
} from '../src/gen/extender/policy/v1beta1/outcomes.js';
import {
  BindRequest,
  type BindResponse,
  FilterRequest,
  type FilterResponse,
} from '../src/gen/extender/policy/v1beta1/policy.js';
import {
  Bind,
  currentCall,
  type CurrentCall,
  Hook,
  Info,
  listen,
  ListenError,
  type Node,
  NotReady,
  type Pod,
  Policy,
  Reads,
  Verb,
  Verdict,
} from '../src/index.js';
import { ask, call, failure, getInfo, inline, readsAll, row, type Served, served, Sync } from './support.js';

const identity = new Reads().pod('identity', 'namespace').node('name');
const changing = new Reads().pod('namespace').node('name');

const NO = Verdict.reject('no');

/** Remembers which call is the current one in each of its methods. */
class Noting extends Policy {
  readonly seen: (CurrentCall | undefined)[] = [];
  isReady = true;

  override info(): Info {
    return new Info('noting', '1')
      .filters(Verb.perNode().reads(identity))
      .binds()
      .beforeFilterNodes(Hook.changes('nodeLabels').pure().reads(changing))
      .observesOutcomes();
  }

  override filter(_pod: Pod, node: Node): Verdict {
    this.seen.push(currentCall());
    if (node.name === 'bug') {
      throw new TypeError('as the test wants it');
    }
    return node.name === 'no' ? NO : Verdict.accept;
  }

  override async bind(): Promise<Bind> {
    await setImmediate();
    this.seen.push(currentCall());
    return Bind.bound;
  }

  override beforeFilterNode(): undefined {
    this.seen.push(currentCall());
  }

  override async observe(): Promise<void> {
    await setImmediate();
    this.seen.push(currentCall());
  }

  override ready(): void {
    if (!this.isReady) {
      throw new NotReady('as the test wants it');
    }
  }
}

const pod = { facts: { namespace: 'shop' }, identity: { name: 'web', uid: 'u' } };

function nodes(...names: string[]): ReturnType<typeof inline> {
  return inline(names.map((name) => ({ ...row(name), facts: undefined })));
}

function filter({ policy }: Served, ...names: string[]): Promise<FilterResponse> {
  const request = FilterRequest.fromPartial({ call: call(identity), pod, nodes: nodes(...names) });
  return ask<FilterRequest, FilterResponse>(policy, policy.filter.bind(policy), request);
}

/** A call of each kind; one fails. */
async function callAll(at: Served): Promise<void> {
  const { policy, hooks, outcomes } = at;
  await getInfo(at);
  await filter(at, 'a', 'no', 'no');
  await failure(filter(at, 'bug'));
  await ask<BindRequest, BindResponse>(
    policy,
    policy.bind.bind(policy),
    BindRequest.fromPartial({ call: call(new Reads()), namespace: 'shop', name: 'web', uid: 'u', node: 'a' }),
  );
  const hook = VerbNumber.BEFORE_FILTER_NODES;
  await ask<ChangeRequest, ChangeResponse>(
    hooks,
    hooks.change.bind(hooks),
    ChangeRequest.fromPartial({
      call: { ...call(changing), id: 'two words\n\u009b' },
      pod: { facts: pod.facts },
      nodes: nodes('a'),
      hook,
    }),
  );
  await failure(ask(hooks, hooks.change.bind(hooks), ChangeRequest.fromPartial({ hook: VerbNumber.FILTER })));
  const outcome = { ...pod.identity, namespace: 'shop', call: 'c-1', kind: OutcomeKind.NOT_BOUND };
  await ask<ReportRequest, ReportResponse>(
    outcomes,
    outcomes.report.bind(outcomes),
    ReportRequest.fromPartial({ call: call(new Reads()), outcomes: [outcome] }),
  );
}

test('log lines of a policy carry the call that it answers', async () => {
  const policy = new Noting();
  const at = await served(policy);
  await callAll(at);
  const web = { callId: 'c-1', pod: 'shop/web' };
  assert.deepEqual(policy.seen, [
    ...Array.from({ length: 4 }, () => ({ ...web, verb: 'filter' })),
    { ...web, verb: 'bind' },
    { verb: 'before_filter_nodes', callId: 'two words\n\u009b', pod: 'shop' },
    { verb: 'observe', callId: 'c-1', pod: undefined },
  ]);
  assert.equal(currentCall(), undefined);
  assert.equal(at.listening.metricsAddress, undefined);
  assert.deepEqual(
    at.log.filter((line) => line.includes('verb=')),
    [],
  );
});

test('the log has a line about each call', async () => {
  const at = await served(new Noting(), { logCalls: true });
  await callAll(at);
  const lines = at.log.filter((line) => line.startsWith('verb='));
  lines.forEach((line) => {
    assert.match(line, / ms=\d+\.\d\d$/);
  });
  assert.deepEqual(
    lines.map((line) => line.replace(/ ms=.*/, '')),
    [
      'verb=get_info',
      'verb=filter call=c-1 pod=shop/web nodes=3 rejected=2',
      'verb=filter call=c-1 pod=shop/web nodes=1 code=INTERNAL message="filter failed (TypeError); see the policy\'s log"',
      'verb=bind call=c-1 pod=shop/web',
      'verb=before_filter_nodes call="two words\\n?" pod=shop nodes=1',
      'verb=observe call=c-1',
    ],
  );
});

/** The samples with this name. */
async function samples(address: string, name: string): Promise<string[]> {
  const response = await fetch(`http://${address}/metrics`);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const lines = (await response.text()).split('\n');
  return lines.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length).trim());
}

test('metrics count calls, and are beside those of the policy', async () => {
  const policy = new Noting();
  const at = await served(policy, { metricsAddress: '127.0.0.1:0' });
  const address = at.listening.metricsAddress ?? '';
  assert.deepEqual(at.log, [`metrics are served at http://${address}/metrics`]);
  const own = new Counter({ name: 'noting_own_total', help: 'Of the policy.' });
  own.inc(7);
  await callAll(at);
  assert.deepEqual(await samples(address, 'extender_policy_calls_total'), [
    '{verb="get_info",code="OK"} 1',
    '{verb="filter",code="OK"} 1',
    '{verb="filter",code="INTERNAL"} 1',
    '{verb="bind",code="OK"} 1',
    '{verb="before_filter_nodes",code="OK"} 1',
    '{verb="observe",code="OK"} 1',
  ]);
  assert.deepEqual(await samples(address, 'extender_policy_call_duration_seconds_count{verb="filter"}'), [
    '2',
  ]);
  const buckets = await samples(address, 'extender_policy_call_duration_seconds_bucket');
  assert.deepEqual(
    buckets.filter((line) => line.includes('"bind"')).map((line) => /le="([^"]+)"/.exec(line)?.[1]),
    '0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 +Inf'.split(' '),
  );
  assert.deepEqual(await samples(address, 'noting_own_total'), ['7']);
  for (const [path, method] of [
    ['/', 'GET'],
    ['/metrics', 'POST'],
  ] as const) {
    assert.equal((await fetch(`http://${address}${path}`, { method })).status, 404);
  }
  // Another server of the process has metrics of its own.
  const other = await served(policy, { metricsAddress: '127.0.0.1:0' });
  assert.deepEqual(await samples(other.listening.metricsAddress ?? '', 'extender_policy_calls_total'), []);
  await at.listening.stop();
  await assert.rejects(fetch(`http://${address}/metrics`));
});

test('metrics show tables and whether the policy is ready', async () => {
  const policy = new Noting();
  policy.info = () => new Info('noting', '1').filters(readsAll);
  const at = await served(policy, { metricsAddress: '[::1]:0' });
  const address = at.listening.metricsAddress ?? '';
  const shown = async (): Promise<string[]> => [
    ...(await samples(address, 'extender_policy_tables ')),
    ...(await samples(address, 'extender_policy_table_nodes ')),
    ...(await samples(address, 'extender_policy_ready ')),
  ];
  assert.deepEqual(await shown(), ['0', '0', '1']);
  const sync = new Sync(at);
  const upserts = ['a', 'b'].map((name, at) => ({ id: at + 1, row: row(name) }));
  await sync.send({
    table: 't',
    version: 1n,
    reads: readsAll.fields.declared.layout().message.node,
    upserts,
  });
  policy.isReady = false;
  assert.deepEqual(await shown(), ['1', '2', '0']);
  sync.cancel();
});

test('an address for metrics that is taken is named', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  after(() => taken.close());
  const metricsAddress = `127.0.0.1:${String((taken.address() as { port: number }).port)}`;
  await assert.rejects(listen(new Noting(), { metricsAddress }), (error: Error) => {
    assert.ok(error instanceof ListenError);
    assert.match(
      error.message,
      new RegExp(`^cannot listen on ${metricsAddress}: .*; set another --metrics-address`),
    );
    return true;
  });
});
