/** WatchService, over sockets. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';

import { type ClientReadableStream, type ServiceError, status } from '@grpc/grpc-js';

import { WatchRequest, type WatchResponse } from '../src/gen/extender/policy/v1beta1/watch.js';
import { args, Backend, Info, NotReady, Policy } from '../src/index.js';
import { MAX_WATCHES } from '../src/watch.js';
import { failure, getInfo, readsAll, type Served, served } from './support.js';

/** A policy whose revision and readiness a test sets. */
class Changing extends Policy {
  isReady = true;
  newer: Policy | undefined;

  constructor(private readonly revision = '1') {
    super();
  }

  override info(): Info {
    return new Info('changing', '1').revision(this.revision).filters(readsAll);
  }

  override filter(): never {
    throw new Error('it is not called');
  }

  override ready(): void {
    if (!this.isReady) {
      throw new NotReady('as the test wants it');
    }
  }

  override current(): Policy {
    return this.newer ?? this;
  }
}

function watch({ watches }: Served, given = ''): ClientReadableStream<WatchResponse> {
  return watches.watch(WatchRequest.fromPartial({ backend: 'b', args: Buffer.from(given) }));
}

/** The end of a stream. */
function end(stream: ClientReadableStream<WatchResponse>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    stream.on('end', resolve).on('error', reject).resume();
  });
}

test('a message comes at once, and one for each change of the handshake and of readiness', async () => {
  const policy = new Changing();
  const { backend, replace } = Backend.replaceable(policy);
  const at = await served(backend);
  assert.deepEqual((await getInfo(at)).services, [
    'extender.policy.v1beta1.NodeTableService',
    'extender.policy.v1beta1.WatchService',
  ]);
  const stream = watch(at);
  await once(stream, 'data');
  const newer = new Changing('2');
  const newest = new Changing('3');
  const changes = [
    () => (policy.isReady = false),
    () => (policy.isReady = true),
    () => (policy.newer = newer),
    () => {
      replace(newest);
    },
  ];
  for (const change of changes) {
    change();
    await once(stream, 'data');
  }
  assert.equal((await getInfo(at)).revision, '3');
  // An equal answer of another policy is no change.
  let messages = 0;
  stream.on('data', () => messages++);
  replace(new Changing('3'));
  newest.isReady = false;
  const other = watch(at);
  await once(other, 'data');
  replace(new Changing('4'));
  await Promise.all([once(stream, 'data'), once(other, 'data')]);
  assert.equal(messages, 1);
});

test('streams are about the policy for their args, and a mistake in them is answered as by GetInfo', async () => {
  const policies = new Map<string, Changing>();
  const backend = Backend.configured(args.object({ zone: args.string() }), ({ zone }) => {
    const policy = new Changing();
    policies.set(zone, policy);
    return policy;
  });
  const at = await served(backend);
  const [a, b] = ['a', 'b'].map((zone) => watch(at, JSON.stringify({ zone })));
  assert.ok(a !== undefined && b !== undefined);
  await Promise.all([once(a, 'data'), once(b, 'data')]);
  b.on('data', () => {
    assert.fail('the policy for b has not changed');
  });
  Object.assign(policies.get('a') ?? {}, { newer: new Changing('2') });
  await once(a, 'data');
  for (const wrong of ['', '{"zone":1}', 'x']) {
    const expected = await failure(getInfo(at, { args: Buffer.from(wrong) }));
    assert.match(expected, /^INVALID_ARGUMENT/);
    assert.equal(await failure(end(watch(at, wrong))), expected);
  }
});

test('a stream ends with the handshake that fails from now on', async () => {
  const policy = new Changing();
  const at = await served(policy);
  const stream = watch(at);
  await once(stream, 'data');
  policy.current = () => {
    throw new TypeError('as the test wants it');
  };
  assert.equal(await failure(end(stream)), "INTERNAL: watch failed (TypeError); see the policy's log");
  assert.match(at.log.join(), /as the test wants it/);
});

test('a server with an open stream stops at once', { timeout: 60_000 }, async () => {
  const at = await served(new Changing(), { drainMilliseconds: 600_000 });
  const stream = watch(at);
  await once(stream, 'data');
  await Promise.all([at.listening.stop(), end(stream)]);
});

/** An open stream, as soon as there are not too many: the server may learn later that a client is gone. */
async function opened(at: Served): Promise<ClientReadableStream<WatchResponse>> {
  for (;;) {
    const stream = watch(at);
    try {
      await once(stream, 'data');
      return stream;
    } catch (error) {
      assert.equal((error as ServiceError).code, status.RESOURCE_EXHAUSTED);
    }
  }
}

test(
  'nothing is left of streams whose client goes away, and there are not too many',
  { timeout: 60_000 },
  async () => {
    const at = await served(new Changing());
    const fill = () => Promise.all(Array.from({ length: MAX_WATCHES }, () => opened(at)));
    for (const stream of await fill()) {
      stream.on('error', () => undefined).cancel();
    }
    await fill();
    assert.equal(
      await failure(end(watch(at))),
      `RESOURCE_EXHAUSTED: this backend already has ${String(MAX_WATCHES)} watches, the maximum`,
    );
  },
);
