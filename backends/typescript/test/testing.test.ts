import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { PodFacts } from '../src/gen/extender/policy/v1beta1/pod.js';
import { FilterRequest } from '../src/gen/extender/policy/v1beta1/policy.js';
import { NonZero, Resources } from '../src/gen/extender/policy/v1beta1/resources.js';
import {
  Bind,
  BindFailed,
  type BindAsk,
  type Candidate,
  Eviction,
  Info,
  type Node,
  type NodePart,
  NO_OPINION,
  NotReady,
  type Pod,
  type PodPart,
  PodsBy,
  Policy,
  Reads,
  Scale,
  UndeclaredRead,
  Verb,
  Verdict,
} from '../src/index.js';
import { rawNode, rawPod } from '../src/kubernetes.js';
import { NODE_PARTS, POD_PARTS } from '../src/reads/parts.js';
import {
  bind,
  everything,
  filter,
  filterInDetail,
  info,
  NoAnswer,
  preempt,
  recorded,
  score,
  TestCandidate,
  TestNode,
  TestPod,
} from '../src/testing.js';
import { readsAll } from './support.js';

function plain(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') {
    return Number(value);
  }
  return value instanceof Map ? Object.fromEntries(value as ReadonlyMap<string, unknown>) : value;
}

/** Remembers what `read` makes of each node. */
class Reader extends Policy {
  readonly found: unknown[] = [];

  constructor(
    private readonly declared: Info,
    private readonly read: (pod: Pod, node: Node) => unknown,
  ) {
    super();
  }

  override info(): Info {
    return this.declared;
  }

  override filter(pod: Pod, node: Node): Verdict {
    this.found.push(JSON.parse(JSON.stringify(this.read(pod, node) ?? null, plain)));
    return Verdict.accept;
  }
}

function reading(verb: Verb, read: (pod: Pod, node: Node) => unknown): Reader {
  return new Reader(new Info('reader', '1').filters(verb), read);
}

function seen(policy: Reader, pod: TestPod, ...nodes: TestNode[]): unknown[] {
  policy.found.length = 0;
  filter(policy, pod, nodes);
  // A pure verb is asked again.
  return policy.found.slice(0, nodes.length);
}

const shop = new TestPod('shop');

test('values are read by key and by text, and absent is not empty', () => {
  const reads = new Reads();
  const [zone, note, rack] = [
    reads.nodeLabel('zone'),
    reads.nodeAnnotation('note'),
    reads.nodeLabels('rack/'),
  ];
  const [app, job] = [reads.podLabel('app'), reads.podAnnotation('job')];
  const policy = reading(Verb.perNode().pure().reads(reads), (pod, node) => [
    [
      node.get(zone) ?? null,
      node.label('zone') ?? null,
      node.get(note) ?? null,
      node.annotation('note') ?? null,
    ],
    [...node.entries(rack)],
    [pod.get(app) ?? null, pod.label('app') ?? null, pod.get(job) ?? null, pod.annotation('job') ?? null],
  ]);
  const full = new TestNode('a')
    .label('zone', 'z')
    .annotation('note', '')
    .label('rack/1', 'r')
    .label('other', 'o');
  assert.deepEqual(
    seen(policy, shop.label('app', 'web').annotation('job', 'j'), full, new TestNode('b').label('zone', '')),
    [
      [['z', 'z', '', ''], [['rack/1', 'r']], ['web', 'web', 'j', 'j']],
      [['', '', null, null], [], ['web', 'web', 'j', 'j']],
    ],
  );
  assert.deepEqual(seen(policy, shop, new TestNode('c')), [
    [[null, null, null, null], [], [null, null, null, null]],
  ]);
  const [declared] = seen(policy, shop.label('app', 'web'), full);
  policy.found.length = 0;
  filter(everything(policy), shop.label('app', 'web'), [full]);
  assert.deepEqual(policy.found[0], declared);
});

test('a read that is not declared names the declaration', () => {
  const owner = new Reads().podsBy(PodsBy.owner);
  const zones = new Reads().podsByTopology(PodsBy.label('app'), 'zone');
  const foreign = new Reads();
  foreign.nodeLabel('first');
  const second = foreign.nodeLabel('second');
  const declared = new Reads();
  declared.nodeLabel('mine');
  const cases: [(pod: Pod, node: Node) => unknown, string][] = [
    [
      (_, node) => node.label('rack'),
      'label "rack" of the node is read and not declared; declare it with Reads.nodeLabel',
    ],
    [
      (_, node) => node.get(second),
      'label "second" of the node is read and not declared; declare it with Reads.nodeLabel',
    ],
    [
      (_, node) => node.annotation('a'),
      'annotation "a" of the node is read and not declared; declare it with Reads.nodeAnnotation',
    ],
    [
      (_, node) => node.labels,
      'labels of the node that begin with "" is read and not declared; declare it with Reads.nodeLabels',
    ],
    [(_, node) => node.name, "name of the node is read and not declared; declare it with Reads.node('name')"],
    [
      (_, node) => node.taints,
      "taints of the node is read and not declared; declare it with Reads.node('taints')",
    ],
    [
      (_, node) => node.usage,
      "filter failed: usage of the node is read and not declared; declare it with Reads.node('usage')",
    ],
    [(_, node) => rawNode(node), "Reads.node('rawJson')"],
    [(pod) => rawPod(pod), "Reads.pod('rawJson')"],
    [
      (pod) => pod.namespace,
      "namespace of the pod is read and not declared; declare it with Reads.pod('namespace')",
    ],
    [(pod) => pod.createdSeconds, "Reads.pod('identity')"],
    [(pod) => pod.claims, "Reads.pod('volumes')"],
    [
      (pod) => pod.label('app'),
      'label "app" of the pod is read and not declared; declare it with Reads.podLabel',
    ],
    [
      (pod, node) => node.podsLike(owner, pod),
      'a count of pods is read and not declared; declare it with Reads.podsBy(PodsBy.owner)',
    ],
    [
      (pod) => pod.podsLike(zones),
      'a count of pods by topology is read and not declared; declare it with Reads.podsByTopology(PodsBy.label("app"), "zone")',
    ],
  ];
  for (const [read, expected] of cases) {
    const policy = reading(Verb.perNode().reads(declared), read);
    assert.throws(
      () => filter(policy, shop, [new TestNode('a')]),
      (error: Error) => error.message.includes(expected) && error.cause instanceof UndeclaredRead,
      expected,
    );
  }
});

test('a call has an id, which a pure verb cannot read', async () => {
  const read = ({ callId }: Pod): unknown => callId;
  const nodes = [new TestNode('a')];
  assert.deepEqual(seen(reading(Verb.perNode(), read), shop, ...nodes), ['test']);
  const policy = reading(Verb.perNode().sideEffects(), read);
  assert.deepEqual(seen(policy, shop.callId('c-2').cluster('east'), ...nodes), ['c-2']);
  assert.throws(
    () => filter(reading(Verb.perNode().pure(), read), shop, nodes),
    ({ message, cause }: Error) =>
      cause instanceof UndeclaredRead &&
      message ===
        'filter failed: callId is another one in each call, which a pure verb cannot read; declare the verb without pure()',
  );
  class Binder extends Policy {
    override info(): Info {
      return new Info('binder', '1').binds();
    }

    override bind({ callId, pod }: BindAsk): Bind {
      return Bind.declined(`${callId} ${String(pod?.callId)}`);
    }
  }
  assert.equal((await bind(new Binder(), shop.callId('c-3'), 'a')).why, 'c-3 c-3');
});

test('parts of nodes and pods are read as the contract has them', () => {
  const node = new TestNode('a')
    .taint('dedicated', 'batch', 'NoSchedule')
    .unschedulable()
    .condition('Ready', 'True')
    .capacity({ milliCpu: 4000, pods: 110 })
    .allocatable({ memory: 2n ** 63n - 1n, others: { 'example.com/gpu': 2 } })
    .usage({ milliCpu: 1500, pods: 3 }, { milliCpu: 1600 });
  const pod = shop
    .identity('p', 'u')
    .owner('o')
    .priority(7)
    .priorityClass('high')
    .requests({ milliCpu: 250n })
    .nonzeroRequests(250, 200)
    .nodeSelector('disk', 'ssd')
    .volume('data', 'claim-1')
    .schedulerName('mine')
    .toleration({ key: 'dedicated', operator: 'Exists' });
  const read = (of: Pod, on: Node): unknown => [
    [on.name, on.taints, on.unschedulable, on.conditions, on.capacity?.milliCpu, on.capacity?.pods],
    [
      String(on.allocatable?.memory),
      on.allocatable?.others,
      on.usage?.requested.milliCpu,
      on.usage?.nonzero.milliCpu,
    ],
    [of.name, of.uid, of.namespace, of.owner?.uid, of.priority, of.priorityClass, of.requests.milliCpu],
    [
      of.nonzeroRequests.memory,
      of.nodeSelector,
      of.volumes,
      of.claims,
      of.schedulerName,
      of.nodeAffinity ?? null,
    ],
    on.taints.map((taint) => of.tolerates(taint)),
  ];
  const expected = [
    ['a', [{ key: 'dedicated', value: 'batch', effect: 'NoSchedule' }], true, { Ready: 'True' }, 4000, 110],
    ['9223372036854775807', { 'example.com/gpu': 2 }, 1500, 1600],
    ['p', 'u', 'shop', 'o', 7, 'high', 250],
    [
      200,
      { disk: 'ssd' },
      [{ name: 'data', claim: 'claim-1', source: '', driver: '' }],
      ['claim-1'],
      'mine',
      null,
    ],
    [true],
  ];
  const reads = new Reads()
    .node('name', 'taints', 'unschedulable', 'conditions', 'capacity', 'allocatable', 'usage')
    .pod('identity', 'namespace', 'owner', 'priority', 'priorityClass', 'requests', 'nonzeroRequests')
    .pod('tolerations', 'nodeSelector', 'nodeAffinity', 'volumes', 'schedulerName');
  const most = Reads.everything().node('usage').pod('identity');
  for (const declared of [reads, most]) {
    assert.deepEqual(seen(reading(Verb.perNode().reads(declared), read), pod, node), [expected]);
  }
  const empty = [
    ['b', [], false, {}, null, null],
    ['undefined', null, null, null],
  ];
  const [found] = seen(reading(Verb.perNode().reads(reads), read), shop, new TestNode('b')) as [unknown[]];
  assert.deepEqual(found.slice(0, 2), empty);
});

test('every part is read where it is declared, and nowhere else', () => {
  const selector = { matchLabels: new Map([['app', 'web']]) };
  const term = { topologyKey: 'zone', selector };
  const given = {
    containers: [
      { name: 'c', image: 'nginx', hostPorts: [{ port: 80 }] },
      { name: 'i', init: true },
    ],
    podAffinity: { antiRequired: [term], preferred: [{ weight: 5, term }] },
    topologySpread: [{ maxSkew: 1, topologyKey: 'zone', selector }],
    resourceClaims: [{ name: 'gpu', template: 'one-gpu' }],
    volumes: [{ name: 'v', source: 'csi', driver: 'd' }],
    podGroupName: 'g',
    runtimeClassName: 'kata',
    preemptionPolicy: 'Never',
    serviceAccountName: 'robot',
  };
  const pod = shop.facts(given).identity('p', 'u', 1_700_000_000);
  const node = new TestNode('a')
    .facts({
      images: [{ names: ['nginx:1', 'nginx@sha256:0'], bytes: 2n ** 40n }],
      systemInfo: { architecture: 'arm64', kernelVersion: '6.1' },
      addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
      providerId: 'cloud://1',
    })
    .usage({ milliCpu: 1 }, { memory: 2 })
    .nominated({ pods: 3 }, { milliCpu: 4 });
  const values: Record<string, unknown> = {
    ...PodFacts.fromPartial({ namespace: 'shop', ...given }),
    ...node.row.facts,
    usage: node.row.usage,
    nominated: node.row.nominated,
    // The only part that is no property.
    identity: [pod.message.identity?.name, 1_700_000_000],
    name: 'a',
    priority: 0,
    priorityClass: undefined,
    requests: Resources.create(),
    nonzeroRequests: NonZero.create(),
    schedulerName: undefined,
    unschedulable: false,
  };
  const parts = [
    ...Object.keys(POD_PARTS).map((part) => ['pod', part] as const),
    ...Object.keys(NODE_PARTS).map((part) => ['node', part] as const),
  ];
  for (const [object, part] of parts) {
    const read = (of: Pod, on: Node): unknown =>
      part === 'identity' ? [of.name, of.createdSeconds] : Reflect.get(object === 'pod' ? of : on, part);
    const remedy = `${object}('${part}')`;
    const declaring = (reads: Reads): Reads =>
      object === 'pod' ? reads.pod(part as PodPart) : reads.node(part as NodePart);
    const undeclared = reading(Verb.perNode().reads(new Reads()), read);
    assert.throws(() => filter(undeclared, pod, [node]), {
      message: new RegExp(
        ` of the ${object} is read and not declared; declare it with Reads\\.${remedy.replace(/[()]/g, '\\$&')}$`,
      ),
    });
    const expected: unknown = JSON.parse(JSON.stringify(values[part] ?? null, plain));
    assert.deepEqual(
      seen(reading(Verb.perNode().reads(declaring(new Reads())), read), pod, node),
      [expected],
      part,
    );
    const beside = ['identity', 'usage', 'nominated', 'rawJson', 'images'].includes(part);
    const all = beside ? declaring(Reads.everything()) : Reads.everything();
    assert.deepEqual(seen(reading(Verb.perNode().reads(all), read), pod, node), [expected], part);
  }
  const absent = reading(
    Verb.perNode().reads(Reads.everything().pod('identity').node('images')),
    (of, on) => [
      [of.createdSeconds, of.podAffinity, of.podGroupName, of.runtimeClassName, of.preemptionPolicy],
      [of.serviceAccountName, on.systemInfo, on.providerId],
      [...of.containers, ...of.topologySpread, ...of.resourceClaims, ...on.images, ...on.addresses],
    ],
  );
  assert.deepEqual(seen(absent, shop.identity('p', 'u'), new TestNode('b')), [
    [[null, null, null, null, null], [null, null, null], []],
  ]);
});

test('operators of tolerations are those of Kubernetes', () => {
  const cases: [Parameters<TestPod['toleration']>[0], boolean][] = [
    [{ key: 'k', operator: 'Equal', value: 'v' }, true],
    [{ key: 'k', operator: '', value: 'v', effect: 'NoSchedule' }, true],
    [{ key: 'k', operator: 'Equal', value: 'w' }, false],
    [{ key: 'k', operator: 'Exists', effect: 'NoExecute' }, false],
    [{ operator: 'Exists' }, true],
    [{ key: 'j', operator: 'Exists' }, false],
    [{ key: 'k', operator: 'Gt', value: 'v' }, false],
  ];
  const reads = new Reads().node('taints').pod('tolerations');
  const policy = reading(Verb.perNode().reads(reads), (pod, node) =>
    node.taints.every((taint) => pod.tolerates(taint)),
  );
  for (const [toleration, expected] of cases) {
    const node = new TestNode('a').taint('k', 'v', 'NoSchedule');
    assert.deepEqual(seen(policy, shop.toleration(toleration), node), [expected], JSON.stringify(toleration));
  }
});

test('pods on nodes are counted by each attribute', () => {
  const reads = new Reads();
  const keys = [
    reads.podsBy(PodsBy.owner),
    reads.podsBy(PodsBy.namespace),
    reads.podsAndRequestsBy(PodsBy.label('app')),
    reads.podsBy(PodsBy.priorityClass),
  ];
  const policy = reading(Verb.perNode().pure().reads(reads), (pod, node) =>
    keys.map((key) => {
      const like = node.podsLike(key, pod);
      return like === undefined ? null : [like.atLeast, like.atMost, like.counted?.terminating];
    }),
  );
  const pod = shop.owner('o').label('app', 'web').priorityClass('high').requests({ milliCpu: 100 });
  const node = new TestNode('a')
    .running(pod, 2)
    .terminating(pod, 1)
    .running(new TestPod('other').label('app', 'web'), 9);
  assert.deepEqual(seen(policy, pod, node, new TestNode('b')), [
    [
      [3, 3, 1],
      [3, 3, 1],
      [3, 3, 1],
      [3, 3, 1],
    ],
    [
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
    ],
  ]);
  assert.deepEqual(seen(policy, shop, node), [[null, [3, 3, 1], null, null]]);

  const sums = reading(Verb.perNode().reads(reads), (_, on) =>
    keys
      .slice(2, 3)
      .flatMap((key) =>
        on
          .podCounts(key)
          .map((count) => [count.namespace, count.value, count.pods, count.requested.milliCpu]),
      ),
  );
  assert.deepEqual(seen(sums, pod, node), [
    [
      ['other', 'web', 9, 0],
      ['shop', 'web', 3, 300],
    ],
  ]);
  const unread = reading(
    Verb.perNode().reads(reads),
    (of, on) => on.podsLike(keys[0] ?? reads.podsBy(PodsBy.owner), of)?.counted?.requested,
  );
  assert.throws(
    () => filter(unread, pod, [node]),
    /the sum of the requests of counted pods is read and not declared; declare it with Reads\.podsAndRequestsBy\(PodsBy\.owner\)/,
  );
});

test('a count that is left out is not 0', () => {
  const reads = new Reads();
  const byApp = reads.podsBy(PodsBy.label('app'));
  const policy = reading(Verb.perNode().reads(reads), (pod, node) => {
    const like = node.podsLike(byApp, pod);
    return [
      like?.atLeast,
      like?.atMost,
      like?.counted === undefined,
      node.omittedPods(byApp),
      node.podCounts(byApp).length,
    ];
  });
  let node = new TestNode('a');
  for (let app = 0; app < 520; app += 1) {
    node = node.running(shop.label('app', `app-${String(app).padStart(3, '0')}`), app < 8 ? 1 : 2);
  }
  assert.deepEqual(seen(policy, shop.label('app', 'app-001'), node), [[0, 8, true, 8, 512]]);
  assert.deepEqual(seen(policy, shop.label('app', 'app-400'), node), [[2, 2, false, 8, 512]]);
});

test('pods in the cluster are counted by topology', () => {
  const reads = new Reads();
  const zones = reads.podsAndRequestsByTopology(PodsBy.owner, 'zone');
  const cluster = reads.podsByTopology(PodsBy.owner, '');
  const policy = reading(Verb.perNode().pure().reads(reads), (pod, node) => {
    const domains = pod.podsLike(zones);
    const all = pod.podsLike(cluster)?.of(node);
    return domains === undefined
      ? null
      : [
          domains.of(node)?.atMost ?? null,
          all?.atMost,
          [...domains].map(([zone, count]) => [zone, count.pods, count.requested.milliCpu]),
        ];
  });
  const pod = shop.owner('o').requests({ milliCpu: 100 });
  const nodes = [
    new TestNode('a').label('zone', 'z1').running(pod, 2),
    new TestNode('b').label('zone', 'z1').running(pod, 1),
    new TestNode('c').label('zone', 'z2').running(shop.owner('other'), 5),
    new TestNode('d').running(pod, 4),
  ];
  const domains = [['z1', 3, 300]];
  assert.deepEqual(seen(policy, pod, ...nodes), [
    [3, 7, domains],
    [3, 7, domains],
    [0, 7, domains],
    [null, 7, domains],
  ]);
  assert.deepEqual(seen(policy, shop, nodes[0] ?? new TestNode('')), [null]);
});

test('JSON is parsed on demand, in the types of the Kubernetes client', () => {
  const policy = reading(Verb.perNode().reads(new Reads().node('rawJson').pod('rawJson')), (pod, node) => [
    rawNode(node)?.status?.nodeInfo?.kernelVersion ?? null,
    rawNode(node)?.metadata?.creationTimestamp?.slice(0, 4) ?? null,
    rawPod(pod)?.spec?.containers.map(({ image }) => image) ?? null,
    node.rawJson?.length ?? null,
  ]);
  const node = {
    metadata: { creationTimestamp: '2026-01-01T00:00:00Z' },
    status: { nodeInfo: { kernelVersion: '6.1' } },
  };
  const pod = shop.raw({ spec: { containers: [{ name: 'c', image: 'nginx' }] } });
  assert.deepEqual(seen(policy, pod, new TestNode('a').raw(node), new TestNode('b')), [
    ['6.1', '2026', ['nginx'], JSON.stringify(node).length],
    [null, null, ['nginx'], null],
  ]);
});

test('all facts and labels are read with one declaration, and its keys are read by what they return', () => {
  const reads = Reads.everything();
  const zone = reads.nodeLabel('zone');
  const policy = reading(Verb.perNode().reads(reads), (pod, node) => [
    [node.name, node.get(zone) ?? null, node.label('rack') ?? null, [...node.labels], node.unschedulable],
    [pod.namespace, pod.priority, [...pod.labels]],
  ]);
  assert.deepEqual(
    seen(policy, shop.label('app', 'web'), new TestNode('a').label('zone', ''), new TestNode('b')),
    [
      [
        ['a', '', null, [['zone', '']], false],
        ['shop', 0, [['app', 'web']]],
      ],
      [
        ['b', null, null, [], false],
        ['shop', 0, [['app', 'web']]],
      ],
    ],
  );
  const cases: [(pod: Pod, node: Node) => unknown, string][] = [
    [(_, node) => node.usage, "Reads.node('usage')"],
    [(_, node) => node.nominated, "Reads.node('nominated')"],
    [(_, node) => node.raw, "Reads.node('rawJson')"],
    [(_, node) => node.images, "Reads.node('images')"],
    [(_, node) => node.annotation('a'), 'Reads.nodeAnnotation'],
    [(pod) => pod.uid, "Reads.pod('identity')"],
    [(pod) => pod.raw, "Reads.pod('rawJson')"],
    [(pod) => pod.annotation('a'), 'Reads.podAnnotation'],
  ];
  for (const [read, expected] of cases) {
    const other = reading(Verb.perNode().reads(reads), read);
    assert.throws(
      () => filter(other, shop, [new TestNode('a')]),
      (error: Error) => error.message.endsWith(`declare it with ${expected}`),
      expected,
    );
  }
});

test('a policy that reads everything in a test reads what its verbs could declare', () => {
  const node = new TestNode('a')
    .usage({ milliCpu: 5 })
    .nominated({ pods: 2 })
    .annotation('n', '1')
    .raw({ kind: 'Node' });
  const pod = shop.identity('p', 'u').raw({ kind: 'Pod' });
  const read = (of: Pod, on: Node): unknown => [
    on.usage?.requested.milliCpu,
    on.nominated?.requested.pods,
    on.annotation('n'),
    of.namespace,
  ];
  const beside = (of: Pod, on: Node): unknown => [on.raw, of.raw, of.name];
  const pure = reading(Verb.perNode().pure(), read);
  filter(everything(pure), pod, [node]);
  assert.deepEqual(pure.found[0], [5, 2, '1', 'shop']);
  const impure = reading(Verb.perNode(), beside);
  filter(everything(impure), pod, [node]);
  assert.deepEqual(impure.found, [[{ kind: 'Node' }, { kind: 'Pod' }, 'p']]);
  const cached = reading(Verb.perNode().pure(), beside);
  assert.throws(
    () => filter(everything(cached), pod, [node]),
    /rawJson of the node is read and not declared/,
  );
});

/** Answers what the contract forbids, about each node by a function. */
class Wrong extends Policy {
  constructor(
    private readonly answer: (node: { readonly name: string }) => string | number,
    private readonly verb = readsAll,
  ) {
    super();
  }

  override info(): Info {
    return new Info('wrong', '1').filters(this.verb).scores(this.verb, Scale.between(0, 10));
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return Verdict.reject(String(this.answer(node)));
  }

  override score(_pod: Pod, node: Node): number {
    return Number(this.answer(node));
  }
}

const abc = ['a', 'b', 'c'].map((name) => new TestNode(name));

function forbidden(answer: () => unknown, expected: string): void {
  assert.throws(answer, ({ name, message }: Error) => {
    assert.equal(message.slice(0, expected.length), expected);
    return name === 'AssertionError';
  });
}

test('reasons are constant texts', () => {
  const rejecting = (reason: (node: { readonly name: string }) => string) => () =>
    filter(new Wrong(reason), shop, abc);
  forbidden(
    rejecting(() => ' '),
    'filter rejects node "a" without a reason; say in a constant text what is wrong with the node',
  );
  forbidden(
    rejecting(() => 'x\n'),
    `filter rejects node "a" with the reason "x\\n", which has control characters; write one line of text`,
  );
  forbidden(
    rejecting(({ name }) => `${String(name.charCodeAt(0) - 96)} of 5 slots used`),
    'filter rejects node "a" with the reason "1 of 5 slots used" and node "b" with "2 of 5 slots used"; leave numbers out of reasons',
  );
  // Names may have digits.
  assert.equal(rejecting(({ name }) => `not in pool-${String(name.charCodeAt(0))}`)().length, 3);
});

test('a score without an opinion is on every scale, and is another answer than 0', () => {
  const given = (name: string): number => (name === 'b' ? NO_OPINION : 0);
  assert.deepEqual(score(new Wrong(({ name }) => given(name)), shop, abc), [0, NO_OPINION, 0]);
  let calls = 0;
  forbidden(
    () => score(new Wrong(() => (calls++ < 3 ? NO_OPINION : 0), readsAll.pure()), shop, abc),
    'score is declared pure and gave another answer about node "a"',
  );
});

test('a wrong answer names its node', () => {
  const shared = {
    name: 'NoAnswer',
    message: /^score returned NaN for node "b"; expected an integer of 32 bits$/,
  };
  assert.throws(() => score(new Wrong(({ name }) => (name === 'b' ? 'x' : 1)), shop, abc), shared);
  const own = 'score returned 1 for position 1';
  const thrower = new Wrong(() => {
    throw new Error(own);
  });
  assert.throws(() => score(thrower, shop, abc), { message: `score failed: Error: ${own}` });
});

test('scores are on the declared scale', () => {
  forbidden(
    () => score(new Wrong(({ name }) => (name === 'c' ? 11 : 10)), shop, abc),
    'score returned 11 for node "c"; the declared scale is 0 to 10: clamp the score, or',
  );
});

test('a pure verb gives the same answer again, and in another order', () => {
  const pure = readsAll.pure();
  assert.equal(filter(new Wrong(({ name }) => name, pure), shop, abc).length, 3);
  let calls = 0;
  const counting = (): string => 'ab'.charAt(calls++ % 2);
  forbidden(
    () => filter(new Wrong(counting, pure), shop, abc),
    'filter is declared pure and gave another answer about node "a" when it was asked again; a pure verb depends',
  );
  calls = 0;
  forbidden(
    () => score(new Wrong(() => calls++, pure), shop, abc),
    'score is declared pure and gave another answer about node "a" when it was asked again;',
  );
  // Without pure() it is asked once.
  calls = 0;
  assert.deepEqual(score(new Wrong(() => calls++), shop, abc), [0, 1, 2]);
});

class All extends Policy {
  override info(): Info {
    return new Info('all', '1')
      .filters(readsAll)
      .scores(readsAll, Scale.unbounded())
      .preempts(Verb.perNode().reads(new Reads().node('name').pod('namespace')))
      .binds(new Reads().pod('namespace'));
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return node.name === 'a'
      ? Verdict.reject('no').unresolvable().byRule('r').retryAfter(59.1)
      : Verdict.accept.byRule('x').unresolvable().retryAfter(1);
  }

  override score(_pod: Pod, node: Node): number {
    return node.name.length;
  }

  override preempt(_pod: Pod, candidate: Candidate): Eviction {
    switch (candidate.node.name) {
      case 'wrong':
        return Eviction.only([0, 0]);
      case 'none':
        return Eviction.only([]);
      default:
        return Eviction.of(candidate, ({ pod }) => pod?.namespace === 'shop');
    }
  }

  override async bind({ node, pod, uid }: BindAsk): Promise<Bind> {
    await Promise.resolve();
    if (node === 'broken') {
      throw new BindFailed('node broken refuses pods');
    }
    if (node === 'full') {
      return Bind.notBound('no room is left');
    }
    return node === 'a' ? Bind.bound : Bind.declined(`${uid} ${pod?.namespace ?? ''} ${'ä'.repeat(600)}`);
  }
}

test('each verb can be tried', async () => {
  const policy = new All();
  assert.equal(info(policy).name, 'all');
  assert.deepEqual(filterInDetail(policy, shop, [new TestNode('a'), new TestNode('b')]), [
    { node: 'a', reason: 'no', rule: 'r', unresolvable: true, retryAfterSeconds: 60 },
  ]);
  assert.deepEqual(score(policy, shop, [new TestNode('a'), new TestNode('bb')]), [1, 2]);
  const candidate = (name: string): TestCandidate =>
    new TestCandidate(new TestNode(name)).victim('u1', shop).unknownVictim('u2').pdbViolations(1);
  assert.deepEqual(
    preempt(policy, shop, [
      candidate('a'),
      new TestCandidate(new TestNode('b')).unknownVictim('u3'),
      new TestCandidate(new TestNode('c')).victim('u4', shop),
    ]),
    [
      ['a', ['u1']],
      ['c', ['u4']],
    ],
  );
  assert.throws(
    () => preempt(policy, shop, [candidate('wrong')]),
    /preempt returned victims \[0, 0\] for node "wrong", which has 2; expected each at most once, at least one victim, or Eviction\.spare/,
  );
  assert.throws(() => preempt(policy, shop, [candidate('none')]), /preempt returned victims \[\]/);
  assert.equal((await bind(policy, shop, 'a')).isBound, true);
  const declined = await bind(policy, shop, 'b');
  assert.ok(declined.why?.startsWith('uid shop ä') && Buffer.byteLength(declined.why) <= 1024);
  assert.equal(declined.isDeclined, true);
  const notBound = await bind(policy, shop, 'full');
  assert.deepEqual([notBound.why, notBound.isDeclined, notBound.isBound], ['no room is left', false, false]);
  await assert.rejects(bind(policy, shop, 'broken'), /node broken refuses pods/);
  policy.ready = (): never => {
    throw new NotReady('no data yet');
  };
  await assert.rejects(bind(policy, shop, 'a'), /no data yet/);
});

test('recorded objects are read as test objects, reduced to what the policy declares', () => {
  const entries = (...all: [string, string][]): { entries: Map<string, string> } => ({
    entries: new Map(all),
  });
  const request = FilterRequest.fromPartial({
    pod: {
      facts: {
        namespace: 'shop',
        labels: entries(['app', 'web'], ['tier', 'x']),
        annotations: entries(['a', '1']),
      },
      identity: { name: 'p', uid: 'u' },
      rawJson: Buffer.from('{"kind":"Pod"}'),
    },
    nodes: {
      count: 2,
      form: {
        $case: 'rows',
        value: {
          rows: [
            { name: 'a', facts: { labels: entries(['zone', 'z']) }, nominated: { requested: { pods: 2n } } },
            { name: 'b', facts: {} },
          ],
        },
      },
    },
  });
  const folder = mkdtempSync(join(tmpdir(), 'recorded-'));
  after(() => {
    rmSync(folder, { recursive: true });
  });
  const file = join(folder, 'objects.binpb');
  const bytes = FilterRequest.encode(request).finish();
  writeFileSync(file, bytes);
  const { pod, nodes } = recorded(file);
  const reads = new Reads().node('name', 'nominated').pod('identity');
  const [app, zone] = [reads.podLabel('app'), reads.nodeLabel('zone')];
  const policy = reading(Verb.perNode().reads(reads), (of, on) => [
    [of.name, of.get(app), on.name, on.get(zone), on.nominated?.requested.pods],
  ]);
  assert.deepEqual(seen(policy, pod, ...nodes), [
    [['p', 'web', 'a', 'z', 2]],
    [['p', 'web', 'b', null, null]],
  ]);
  const undeclared = reading(Verb.perNode().reads(reads), (of) => of.label('tier'));
  assert.throws(() => filter(undeclared, pod, nodes), NoAnswer);
  const rawReads = reading(Verb.perNode().reads(new Reads().pod('rawJson')), (of) => of.raw);
  assert.deepEqual(seen(rawReads, pod, ...nodes.slice(0, 1)), [{ kind: 'Pod' }]);

  // Cut off anywhere, and what is no such file.
  const broken = Array.from(bytes, (_, length) => bytes.subarray(0, length));
  broken.push(Buffer.from('{"kind":"Pod"}'), FilterRequest.encode({ ...request, nodes: undefined }).finish());
  const values = { facts: { labels: { values: ['web'] } } };
  broken.push(FilterRequest.encode(FilterRequest.fromPartial({ ...request, pod: values })).finish());
  for (const content of broken) {
    writeFileSync(file, content);
    assert.throws(
      () => recorded(file),
      (error: Error) => error.message.startsWith(`${file} has no recorded objects: `),
      String(content.length),
    );
  }
  assert.throws(() => recorded(join(folder, 'none')), /none has no recorded objects: ENOENT/);
});
