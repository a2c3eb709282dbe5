/** What a policy shows of its state, over sockets; and the snapshots of calls. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';

import {
  IntrospectRequest,
  type IntrospectResponse,
} from '../src/gen/extender/policy/v1beta1/introspection.js';
import { FilterRequest, type FilterResponse } from '../src/gen/extender/policy/v1beta1/policy.js';
import {
  args,
  Backend,
  Info,
  type IntrospectAsk,
  InvalidParameter,
  type Node,
  NotFound,
  NotReady,
  Policy,
  type Pod,
  Scale,
  Verb,
  Verdict,
} from '../src/index.js';
import { filter, introspect, score, TestNode, TestPod } from '../src/testing.js';
import { ask, call, failure, inline, readsAll, row, served, type Served } from './support.js';

const FOUR_MIB = 4 << 20;

type Show = (ask: IntrospectAsk) => unknown;

/** Shows whatever its functions return. */
class Shows extends Policy {
  constructor(
    private readonly shown: Readonly<Record<string, Show>> = {},
    private readonly name = 'shows',
  ) {
    super();
  }

  override info(): Info {
    const info = new Info(this.name, '1')
      .filters(Verb.perNode())
      .shows('/quotas', 'all quotas', () => ['shop', 'bank'])
      .shows('/quotas/:namespace', 'the quota of a namespace', (asked) => this.quota(asked))
      .shows('/quotas/:namespace/pods/:pod', '', ({ parameters: { namespace, pod }, ...asked }) => ({
        namespace,
        pod,
        all: asked.path,
      }))
      .shows('/parameters/:a/:b', '', ({ parameters }) => parameters)
      .shows('/name', 'the name of the policy', () => this.name);
    return Object.entries(this.shown).reduce((all, [path, show]) => all.shows(`/${path}`, '', show), info);
  }

  private async quota({ parameters: { namespace }, query }: IntrospectAsk<'namespace'>): Promise<object> {
    await Promise.resolve();
    if (namespace === 'nowhere') {
      throw new NotFound(`namespace ${namespace} has no quota`);
    }
    const most = Number(query.get('most') ?? '3');
    if (!Number.isInteger(most)) {
      throw new InvalidParameter(`most is ${String(query.get('most'))}; expected a number`);
    }
    return { namespace, pods: new Map([['most', most]]), owners: new Set(['a']) };
  }

  override ready(): void {
    throw new NotReady('no data yet');
  }

  override filter(): Verdict {
    return Verdict.accept;
  }
}

type Asked = Parameters<typeof IntrospectRequest.fromPartial>[0];

async function shown(backend: Served, path: string, request: Asked = {}): Promise<string> {
  const client = backend.introspection;
  const { json } = await ask<IntrospectRequest, IntrospectResponse>(
    client,
    client.introspect.bind(client),
    IntrospectRequest.fromPartial({ backend: 'b', path, ...request }),
  );
  return Buffer.from(json).toString('utf8');
}

function texts(given: Readonly<Record<string, string>>): Map<string, string> {
  return new Map(Object.entries(given));
}

test('a path is shown, also while the policy is not ready', async () => {
  assert.equal(await shown(await served(new Shows()), '/quotas'), '["shop","bank"]');
});

test('parameters and query reach the function', async () => {
  const backend = await served(new Shows());
  const quota = { parameters: texts({ namespace: 'läden' }), query: texts({ most: '7' }) };
  assert.equal(
    await shown(backend, '/quotas/:namespace', quota),
    '{"namespace":"läden","pods":{"most":7},"owners":["a"]}',
  );
  const pod = { parameters: texts({ namespace: 'shop', pod: 'a/b' }) };
  assert.equal(
    await shown(backend, '/quotas/:namespace/pods/:pod', pod),
    '{"namespace":"shop","pod":"a/b","all":"/quotas/:namespace/pods/:pod"}',
  );
  const more = { parameters: texts({ a: '1', b: '2', other: '3' }) };
  assert.equal(await shown(backend, '/parameters/:a/:b', more), '{"a":"1","b":"2"}');
});

test('the errors of functions have their codes', async () => {
  const away = (): never => {
    throw new NotReady('the prices are a day old');
  };
  const backend = await served(new Shows({ away }));
  const nowhere = { parameters: texts({ namespace: 'nowhere' }) };
  assert.equal(
    await failure(shown(backend, '/quotas/:namespace', nowhere)),
    'NOT_FOUND: namespace nowhere has no quota',
  );
  const wrong = { parameters: texts({ namespace: 'shop' }), query: texts({ most: 'x' }) };
  assert.equal(
    await failure(shown(backend, '/quotas/:namespace', wrong)),
    'INVALID_ARGUMENT: most is x; expected a number',
  );
  assert.equal(await failure(shown(backend, '/away')), 'UNAVAILABLE: the prices are a day old');
  assert.deepEqual(backend.log, []);
});

test('a bug is logged once and not told', async () => {
  const thrown = new Error('secret');
  const shows: Record<string, Show> = {
    throws: () => {
      throw thrown;
    },
    rejects: () => Promise.reject(thrown),
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- a policy may throw anything
    undefined: () => Promise.reject(),
  };
  const backend = await served(new Shows(shows));
  for (const path of Object.keys(shows)) {
    const kind = path === 'undefined' ? path : 'Error';
    const expected = `INTERNAL: introspect failed (${kind}); see the policy's log`;
    assert.equal(await failure(shown(backend, `/${path}`)), expected);
    assert.equal(await failure(shown(backend, `/${path}`)), expected);
  }
  assert.equal(backend.log.length, 2, backend.log.join('\n'));
  assert.match(backend.log[0] ?? '', /Error: secret\n.*at /);
  assert.equal(await shown(backend, '/name'), '"shows"');
});

test('what JSON does not have is written as something that it has, or is an error', async () => {
  const loop: unknown[] = [];
  loop.push(loop);
  const throwing = {
    toJSON: (): never => {
      throw new NotReady('secret');
    },
  };
  const values: Record<string, unknown> = {
    numbers: [Number.NaN, Number.POSITIVE_INFINITY, { a: Number.NEGATIVE_INFINITY }],
    bigints: [1n, -(2n ** 53n), 2n ** 53n - 1n],
    surrogates: { '\ud800': '\\ud800 "\udfff" 😀 \0' },
    null: null,
    undefined,
    function: () => 1,
    symbol: Symbol('s'),
    loop,
    throwing,
  };
  const shows = Object.entries(values).map(([name, value]): [string, Show] => [name, () => value]);
  const backend = await served(new Shows(Object.fromEntries(shows)));
  assert.equal(await shown(backend, '/numbers'), '[null,null,{"a":null}]');
  assert.equal(await shown(backend, '/bigints'), '[1,"-9007199254740992",9007199254740991]');
  assert.equal(await shown(backend, '/surrogates'), '{"\ufffd":"\\\\ud800 \\"\ufffd\\" 😀 \\u0000"}');
  assert.equal(await shown(backend, '/null'), 'null');
  for (const name of ['undefined', 'function', 'symbol', 'loop', 'throwing']) {
    assert.equal(
      await failure(shown(backend, `/${name}`)),
      `INTERNAL: what the policy shows at /${name} cannot be written as JSON; its log says why`,
    );
  }
  assert.ok(backend.log.join('\n').includes('undefined was returned; return null if there is nothing'));
});

test('an answer may have 4 MiB', async () => {
  const backend = await served(
    new Shows({ most: () => 'x'.repeat(FOUR_MIB - 2), more: () => 'ä'.repeat(FOUR_MIB / 2) }),
  );
  assert.equal((await shown(backend, '/most')).length, FOUR_MIB);
  assert.equal(
    await failure(shown(backend, '/more')),
    'RESOURCE_EXHAUSTED: what the policy shows at /more has 4194306 bytes as JSON; at most 4194304 are allowed, select less with a parameter or the query',
  );
});

test('a request that is too large is not decoded', async () => {
  const query = texts({ q: 'x'.repeat(2 << 20) });
  assert.match(
    await failure(shown(await served(new Shows()), '/quotas', { query })),
    /^RESOURCE_EXHAUSTED: the request has \d+ bytes; at most 2097152 are decoded$/,
  );
});

test('args select the policy', async () => {
  const schema = args.object({ name: args.string() });
  const backend = await served(Backend.configured(schema, ({ name }) => new Shows({}, name)));
  for (const name of ['one', 'two']) {
    const given = { args: Buffer.from(JSON.stringify({ name })) };
    assert.equal(await shown(backend, '/name', given), `"${name}"`);
  }
  assert.match(
    await failure(shown(backend, '/name', { args: Buffer.from('{"nam": "one"}') })),
    /^INVALID_ARGUMENT: .*args\.nam/,
  );
  assert.match(
    await failure(shown(await served(new Shows()), '/name', { args: Buffer.from('{"a": 1}') })),
    /^INVALID_ARGUMENT: /,
  );
});

test('a replaced policy shows the state of the new one', async () => {
  const { backend, replace } = Backend.replaceable(new Shows({}, 'old'));
  const server = await served(backend);
  replace(new Shows({}, 'new'));
  assert.equal(await shown(server, '/name'), '"new"');
});

test('a function is told when the caller gives up', async () => {
  let aborted: ((value: boolean) => void) | undefined;
  const isAborted = new Promise<boolean>((resolve) => {
    aborted = resolve;
  });
  const slow: Show = async ({ signal }) => {
    await wait(20_000, undefined, { signal }).catch(() => undefined);
    aborted?.(signal.aborted);
  };
  const { introspection } = await served(new Shows({ slow }));
  const request = IntrospectRequest.fromPartial({ path: '/slow' });
  const given = introspection.introspect(request, () => undefined);
  await wait(100);
  given.cancel();
  assert.equal(await isAborted, true);
});

test('16 functions run at a time', async () => {
  const going: (() => void)[] = [];
  const slow: Show = () =>
    new Promise((resolve) => {
      going.push(() => {
        resolve(going.length);
      });
    });
  const backend = await served(new Shows({ slow }));
  const given = Array.from({ length: 16 }, () => shown(backend, '/slow'));
  while (going.length < 16) {
    await wait(5);
  }
  for (const path of ['/slow', '/name']) {
    assert.equal(await failure(shown(backend, path)), 'UNAVAILABLE: too many such requests; try again later');
  }
  going.forEach((go) => {
    go();
  });
  assert.deepEqual(await Promise.all(given), Array<string>(16).fill('16'));
  assert.equal(await shown(backend, '/name'), '"shows"');
  assert.deepEqual(backend.log, []);
});

/** Shows nothing, and answers what the snapshot is. */
class Silent extends Policy {
  override info(): Info {
    return new Info('silent', '1').filters(readsAll).scores(readsAll, Scale.unbounded());
  }

  override filter(pod: Pod): Verdict {
    return Verdict.reject(`${String(pod.snapshot)} ${String(pod.cluster)}`);
  }

  override score({ snapshot }: Pod, { name }: Node): number {
    return (snapshot ?? '').length + name.length;
  }
}

function declared(...paths: string[]): Info {
  const info = new Info('p', '1').filters(Verb.perNode());
  return paths.reduce((all, path) => all.shows(path, '', () => null), info);
}

test('the type checker knows the parameters of a path', () => {
  declared().shows('/a/:b/:cD', '', ({ parameters: { b, cD } }) => b + cD);
  // @ts-expect-error -- the path has another parameter
  declared().shows('/a/:b', '', ({ parameters: { c } }) => c as unknown);
  // @ts-expect-error -- the path has none
  declared().shows('/a', '', ({ parameters: { a } }) => a as unknown);
});

test('a path can be tried without a server', async () => {
  const parameters = { namespace: 'shop' };
  const quota = await introspect(new Shows(), '/quotas/:namespace', { parameters, query: { most: '1' } });
  assert.deepEqual(quota, { namespace: 'shop', pods: { most: 1 }, owners: ['a'] });
  await assert.rejects(introspect(new Shows(), '/unknown'), /does not show the path "\/unknown"/);
});

test('a pod has the snapshot and the cluster of its call', async () => {
  const backend = await served(new Silent());
  for (const name of ['state', '']) {
    const request = FilterRequest.fromPartial({
      call: { ...call(), snapshot: name, cluster: name },
      pod: { facts: { namespace: 'shop' } },
      nodes: inline([row('a')]),
    });
    const answer = await ask<FilterRequest, FilterResponse>(
      backend.policy,
      backend.policy.filter.bind(backend.policy),
      request,
    );
    assert.deepEqual(
      answer.rejections.map(({ reason }) => reason),
      [name === '' ? 'undefined undefined' : 'state state'],
    );
  }
});

test('a snapshot and a cluster can be tried without a server', () => {
  const pod = new TestPod('shop').snapshot('state').cluster('east').label('a', 'b');
  assert.deepEqual(filter(new Silent(), pod, [new TestNode('a')]), [['a', 'state east']]);
  assert.deepEqual(score(new Silent(), pod, [new TestNode('a')]), [6]);
  assert.deepEqual(score(new Silent(), new TestPod('shop'), [new TestNode('a')]), [1]);
});
