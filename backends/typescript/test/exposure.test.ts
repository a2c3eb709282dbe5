/** What clients without a certificate can do to a backend whose address they reach. */

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { connect as connectHttp2, createServer } from 'node:http2';
import { connect, type AddressInfo } from 'node:net';
import { test } from 'node:test';

import { follow, mostConnections, Progress, type CountedStream } from '../src/connections.js';
import { GetInfoRequest } from '../src/gen/extender/policy/v1beta1/info.js';
import { Backend, Bind, ExposedError, Info, Policy, args, Verb, Verdict } from '../src/index.js';
import { command } from '../src/run.js';
import { listen, type ServeOptions } from '../src/serve.js';
import { ask, failure, served } from './support.js';

class Binder extends Policy {
  override info(): Info {
    return new Info('binder', '1').binds();
  }

  override bind(): Bind {
    return Bind.bound;
  }
}

class Filters extends Policy {
  override info(): Info {
    return new Info('filters', '1').filters(Verb.perNode());
  }

  override filter(): Verdict {
    return Verdict.accept;
  }
}

function request(): GetInfoRequest {
  return GetInfoRequest.create({ gatewayVersion: 'a'.repeat(100) });
}

const OPEN = '0.0.0.0:0';
const REFUSED = /0\.0\.0\.0:0 is reached from other machines without a client certificate.* can bind pods/;

test('clients without a certificate get no policy that binds', async () => {
  await assert.rejects(listen(new Binder(), { address: OPEN }), REFUSED);
  await assert.rejects(listen(new Binder(), { address: OPEN }), ExposedError);
  const allowed: [Policy, ServeOptions][] = [
    [new Binder(), {}],
    [new Binder(), { address: 'localhost:0' }],
    [new Binder(), { address: OPEN, allowUnauthenticatedBind: true }],
    [new Filters(), { address: OPEN }],
  ];
  for (const [policy, options] of allowed) {
    await (await listen(policy, options)).stop();
  }
  // Whether one that is built from args binds is known when it is called.
  const backend = await served(
    Backend.configured(args.object({}), () => new Binder()),
    { address: OPEN },
  );
  const info = failure(ask(backend.policy, backend.policy.getInfo.bind(backend.policy), request()));
  assert.match(await info, /^FAILED_PRECONDITION: 0\.0\.0\.0:0 is reached/);
});

test('a connection that does not begin is closed, and the next one is served', async () => {
  const server = createServer();
  server.maxConnections = 1;
  follow(server, 50);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  for (const sent of ['', 'PRI * HTTP/2.0']) {
    const silent = connect(port, '127.0.0.1');
    silent.resume().write(sent);
    await once(silent, 'close');
  }
  server.close();
});

/** A stream that a test feeds. */
class Fed extends EventEmitter {
  closedWith: number | undefined;

  close(code?: number): void {
    this.closedWith = code;
    this.emit('close');
  }

  /** A message of a length, of which so much arrives, in chunks that do not respect its borders. */
  feed(length: number, arrived: number): void {
    const bytes = Buffer.alloc(5 + arrived);
    bytes.writeUInt32BE(length, 1);
    for (let at = 0; at < bytes.length; at += 3) {
      this.emit('data', bytes.subarray(at, at + 3));
    }
  }
}

function fed(progress: Progress, path = '/a/Filter'): Fed {
  const stream = new Fed();
  progress.follow(stream as unknown as CountedStream, path);
  return stream;
}

test('the largest unfinished message is given up', () => {
  const progress = new Progress(100);
  const [large, small, other] = [fed(progress), fed(progress), fed(progress)];
  large.feed(1_000, 60);
  small.feed(1_000, 30);
  assert.equal(progress.bytes, 90);
  other.feed(1_000, 20);
  assert.deepEqual([large.closedWith, small.closedWith, other.closedWith], [11, undefined, undefined]);
  assert.equal(progress.bytes, 50);
  small.close();
  other.close();
  assert.equal(progress.bytes, 0);
});

test('a message of a stream counts until it is complete', () => {
  const progress = new Progress(100);
  for (const path of ['/a/SyncNodes', '/a/ServerReflectionInfo']) {
    const stream = fed(progress, path);
    stream.feed(0, 0);
    stream.feed(40, 40);
    assert.equal(progress.bytes, 0);
    stream.feed(40, 39);
    assert.equal(progress.bytes, 39);
    stream.emit('data', Buffer.alloc(1));
    assert.equal(progress.bytes, 0);
  }
});

test('the message of a call counts until its answer, and is unfinished until its client has ended its side', () => {
  const progress = new Progress(100);
  const [open, ended, watch] = [fed(progress), fed(progress), fed(progress, '/h/Watch')];
  open.feed(40, 40);
  ended.feed(50, 50);
  ended.emit('end');
  assert.equal(progress.bytes, 90);
  watch.feed(30, 30);
  watch.emit('end');
  assert.deepEqual([open.closedWith, ended.closedWith, watch.closedWith], [11, undefined, undefined]);
  const next = fed(progress);
  next.feed(1_000, 21);
  assert.deepEqual([ended.closedWith, watch.closedWith, next.closedWith], [undefined, 11, undefined]);
  assert.equal(progress.bytes, 71);
  ended.close();
  next.close();
  assert.equal(progress.bytes, 0);
  const kept = fed(progress, '/extender.policy.v1beta1.WatchService/Watch');
  kept.feed(60, 60);
  assert.equal(progress.bytes, 60);
  kept.emit('end');
  assert.equal(progress.bytes, 0);
});

test('a call whose client does not end its side is given up', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const progress = new Progress(100);
  const [open, ended, stream] = [fed(progress), fed(progress), fed(progress, '/a/SyncNodes')];
  open.feed(40, 40);
  ended.feed(40, 40);
  ended.emit('end');
  context.mock.timers.tick(9_999);
  assert.equal(progress.bytes, 80);
  context.mock.timers.tick(1);
  assert.deepEqual([open.closedWith, ended.closedWith, stream.closedWith], [11, undefined, undefined]);
  assert.equal(progress.bytes, 40);
});

test('a server gives up what its clients do not end', async () => {
  const server = createServer();
  const progress = new Progress(100, 50);
  follow(server, 1_000, progress);
  server.on('stream', (stream) => {
    stream.on('error', () => undefined).resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connectHttp2(`http://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
  const stream = client.request({ ':method': 'POST', ':path': '/a/Filter' }, { endStream: false });
  stream.write(Buffer.alloc(5));
  const [failed] = (await once(stream, 'error')) as [Error];
  assert.match(failed.message, /NGHTTP2_ENHANCE_YOUR_CALM/);
  client.close();
  server.close();
});

test('a quarter of the descriptors is left', () => {
  const limits = (soft: string): number => mostConnections(`Max open files            ${soft}   4096  files`);
  assert.deepEqual(['1', '1024', 'unlimited'].map(limits), [1, 768, 1_000]);
  assert.equal(mostConnections(''), 768);
});

test('the option for binders has no value', () => {
  const parsed = command(['--allow-unauthenticated-bind']);
  assert.deepEqual(parsed, { serve: { address: '127.0.0.1:0', allowUnauthenticatedBind: true } });
});
