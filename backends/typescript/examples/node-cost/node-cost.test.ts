import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';

import { ChannelCredentials } from '@grpc/grpc-js';

import { listen } from '@extender-gateway/policy';
import { info as infoMessages, policy as policyMessages } from '@extender-gateway/policy/api';
import {
  filter,
  filterInDetail,
  info,
  score,
  TestNode,
  TestPod,
  withArgs,
} from '@extender-gateway/policy/testing';

import { nodeCost } from './node-cost.js';

const POOL = 'cloud.google.com/gke-nodepool';
const HOURS = { timeZone: 'Europe/Berlin', open: [{ days: ['mon'], from: '08:00', to: '18:00' }] };
const ARGS = {
  pools: {
    standard: { price: 0.4 },
    spot: { price: 0.03, per: 'cpu' },
    office: { price: 0.2, hours: HOURS },
  },
};
const BATCH = { label: 'workload', value: 'batch', annotation: 'example.com/duration', closing: '1h' };

/** A clock that a test sets, beginning on a Monday in winter. */
class TestClock {
  now = Date.parse('2026-01-05T09:00:00Z');
  readonly read = (): number => this.now;

  set(instant: string): void {
    this.now = Date.parse(instant);
  }
}

const nodes = ['standard', 'spot', 'office'].map((pool) =>
  new TestNode(pool).label(POOL, pool).allocatable({ milliCpu: 4000 }),
);
const other = new TestNode('other').allocatable({ milliCpu: 2000 });
const pod = new TestPod('shop');
const batch = pod.label('workload', 'batch');

test('the price of a CPU is the score, in millionths', () => {
  const clock = new TestClock();
  const backend = withArgs(nodeCost(clock.read), ARGS);
  // The other node has 2 CPUs and costs what the dearest pool would: 0.40 for the node.
  assert.deepEqual(score(backend, pod, [...nodes, other]), [100_000, 30_000, 50_000, 200_000]);
  const { verbs } = info(backend);
  assert.deepEqual(
    verbs.map(({ effects, reversed }) => [effects, reversed]),
    [
      [infoMessages.Effects.PURE, false],
      [infoMessages.Effects.PURE, true],
    ],
  );
  const priced = withArgs(nodeCost(clock.read), { ...ARGS, others: { price: 1, per: 'cpu' } });
  assert.deepEqual(score(priced, pod, [other]), [1_000_000]);
});

test('a closed pool is rejected, and opens at its hour', () => {
  const clock = new TestClock();
  const backend = withArgs(nodeCost(clock.read), ARGS);
  assert.deepEqual(filter(backend, pod, nodes), []);
  clock.set('2026-01-05T17:00:00Z');
  const closed = { node: 'office', reason: 'node pool is closed', rule: 'hours', unresolvable: true };
  assert.deepEqual(filterInDetail(backend, pod, nodes), [closed]);
  clock.set('2026-01-12T07:00:00Z');
  assert.deepEqual(filter(backend, pod, nodes), []);
});

test('a closed pool can be dearer instead', () => {
  const clock = new TestClock();
  const backend = withArgs(nodeCost(clock.read), { ...ARGS, outside: 'avoid' });
  clock.set('2026-01-05T17:00:00Z');
  assert.deepEqual(filter(backend, pod, nodes), []);
  assert.deepEqual(score(backend, pod, nodes), [100_000, 30_000, 500_000]);
});

test('the revision changes when a pool opens or closes, and only then', () => {
  const clock = new TestClock();
  const backend = withArgs(nodeCost(clock.read), ARGS);
  const open = info(backend).revision;
  clock.set('2026-01-05T16:59:59Z');
  assert.equal(info(backend).revision, open);
  clock.set('2026-01-05T17:00:00Z');
  const closed = info(backend).revision;
  assert.notEqual(closed, open);
  assert.ok(Buffer.byteLength(closed) <= 64);
  // Another replica, started later, has the same.
  assert.equal(info(withArgs(nodeCost(clock.read), ARGS)).revision, closed);
  // A clock that is set back.
  clock.set('2026-01-05T12:00:00Z');
  assert.equal(info(backend).revision, open);
});

test('a batch pod avoids a pool that closes before it ends', () => {
  const clock = new TestClock();
  const backend = withArgs(nodeCost(clock.read), { ...ARGS, batch: { ...BATCH, treatment: 'reject' } });
  const fits = (text: string, ...of: TestPod[]): void => {
    clock.set(text);
    of.forEach((one) => {
      assert.deepEqual(filter(backend, one, nodes), [], text);
    });
  };
  const ends = (text: string, ...of: TestPod[]): void => {
    clock.set(text);
    of.forEach((one) => {
      assert.deepEqual(
        filter(backend, one, nodes),
        [['office', 'node pool closes before the pod ends']],
        text,
      );
    });
  };
  const long = batch.annotation('example.com/duration', '3h30m');
  const wrong = batch.annotation('example.com/duration', 'soon');
  // It closes at 17:00 in UTC.
  fits('2026-01-05T13:30:00Z', pod, batch, long, wrong);
  ends('2026-01-05T13:31:00Z', long);
  fits('2026-01-05T16:00:00Z', pod, batch, wrong);
  ends('2026-01-05T16:00:01Z', batch, long, wrong);
  fits('2026-01-05T16:59:00Z', pod, batch.annotation('example.com/duration', '0m'));
});

test('with batch pods the revision changes every five minutes, like the answers', () => {
  const clock = new TestClock();
  const backend = withArgs(nodeCost(clock.read), { ...ARGS, batch: BATCH });
  const long = batch.annotation('example.com/duration', '3h30m');
  const answers = new Map<string, string>();
  let changes = 0;
  for (let second = 0; second < 24 * 3600; second += 17) {
    clock.set('2026-01-05T07:00:00Z');
    clock.now += second * 1000;
    const { revision } = info(backend);
    const answer = JSON.stringify([score(backend, long, nodes), score(backend, pod, nodes)]);
    changes += answers.has(revision) ? 0 : 1;
    // A pure verb: one answer for each revision.
    assert.equal(answers.get(revision) ?? answer, answer);
    answers.set(revision, answer);
  }
  assert.ok(changes > 115 && changes <= 123, String(changes));
});

test('hours follow the clocks of Berlin when they change', () => {
  const clock = new TestClock();
  const sunday = { ...HOURS, open: [{ days: ['sun'], from: '01:00', to: '04:00' }] };
  const backend = withArgs(nodeCost(clock.read), { pools: { office: { price: 1, hours: sunday } } });
  const isOpen = (instant: string): boolean => {
    clock.set(instant);
    return filter(backend, pod, nodes).length === 0;
  };
  // Clocks go forward: two hours. 01:00 is at 00:00 in UTC, 04:00 is at 02:00.
  assert.deepEqual(
    ['2026-03-28T23:59:59Z', '2026-03-29T00:00:00Z', '2026-03-29T01:59:59Z', '2026-03-29T02:00:00Z'].map(
      isOpen,
    ),
    [false, true, true, false],
  );
  // Clocks go back: four hours. 01:00 is at 23:00 in UTC, 04:00 is at 03:00.
  assert.deepEqual(
    ['2026-10-24T22:59:59Z', '2026-10-24T23:00:00Z', '2026-10-25T02:59:59Z', '2026-10-25T03:00:00Z'].map(
      isOpen,
    ),
    [false, true, true, false],
  );
});

test('mistakes in the args are named', () => {
  const wrong = (args: object, expected: RegExp): void => {
    assert.throws(() => withArgs(nodeCost(), args), expected);
  };
  wrong({}, /^NoAnswer: args: missing field `pools`$/);
  wrong(
    { pools: { a: { prize: 1 } } },
    /args\.pools\.a\.prize: unknown field `prize`, expected one of `price`, `per`, `hours`/,
  );
  wrong(
    { pools: { a: { price: -1 } } },
    /args\.pools\.a\.price: invalid value: integer `-1`, expected a number, 0 to 1000000/,
  );
  const hours = (change: object): object => ({ pools: { a: { price: 1, hours: { ...HOURS, ...change } } } });
  wrong(
    hours({ timeZone: 'Berlin' }),
    /args\.pools\.a\.hours\.timeZone: unknown time zone "Berlin", expected an IANA name/,
  );
  wrong(
    hours({ open: [{ days: ['monday'], from: '8:00', to: '25:00' }] }),
    /open\[0\]\.days\[0\]: unknown value "monday", expected one of `sun`.*open\[0\]\.from: invalid time "8:00".*open\[0\]\.to: invalid time "25:00"/,
  );
  wrong(
    { ...ARGS, batch: { ...BATCH, closing: '60' } },
    /args\.batch\.closing: invalid duration "60", expected hours and minutes such as 1h30m/,
  );
});

test('over a socket, answers carry the revision of the state that they are from', async () => {
  const clock = new TestClock();
  const listening = await listen(nodeCost(clock.read), { log: () => undefined });
  const client = new policyMessages.PolicyServiceClient(
    listening.address,
    ChannelCredentials.createInsecure(),
  );
  after(async () => {
    client.close();
    await listening.stop();
  });
  const args = Buffer.from(JSON.stringify(ARGS));
  const handshake = (): Promise<infoMessages.GetInfoResponse> =>
    new Promise((resolve, reject) => {
      client.getInfo(infoMessages.GetInfoRequest.fromPartial({ args }), (error, answer) => {
        if (error === null) {
          resolve(answer);
        } else {
          reject(error);
        }
      });
    });
  const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();
  const asked = (reads: Buffer): Promise<policyMessages.FilterResponse> =>
    new Promise((resolve, reject) => {
      const request = policyMessages.FilterRequest.fromPartial({
        call: { id: 'c', purpose: policyMessages.Purpose.DECIDE, argsSha256: sha256(args), reads },
        pod: { facts: {} },
        nodes: {
          count: 1,
          form: { $case: 'rows', value: { rows: [{ facts: { labels: { values: ['office'] } } }] } },
        },
      });
      client.filter(request, (error, answer) => {
        if (error === null) {
          resolve(answer);
        } else {
          reject(error);
        }
      });
    });
  const { revision, verbs } = await handshake();
  const reads = sha256(infoMessages.Reads.encode(verbs[0]?.reads ?? infoMessages.Reads.create()).finish());
  const open = await asked(reads);
  assert.deepEqual([open.rejections.length, open.result?.revision], [0, revision]);
  clock.set('2026-01-05T17:00:00Z');
  const closed = await asked(reads);
  assert.equal(closed.rejections[0]?.reason, 'node pool is closed');
  assert.notEqual(closed.result?.revision, revision);
  assert.equal((await handshake()).revision, closed.result?.revision);
});
