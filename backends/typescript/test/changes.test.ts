/** What hooks may change, tried without a server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  type Affinity,
  Hook,
  Info,
  type Node,
  NodeChange,
  type NodeChangeFields,
  PodChange,
  type PodChangeFields,
  type Pod,
  Policy,
  PodsBy,
  Reads,
  type ScoreChanges,
  Verb,
} from '../src/index.js';
import {
  beforeFilter,
  beforeFilterNodes,
  beforeScore,
  everything,
  filter,
  TestNode,
  TestPod,
} from '../src/testing.js';

/** Changes all parts, as it is made. */
class Changes extends Policy {
  constructor(
    private readonly pod: PodChangeFields = {},
    private readonly nodes: readonly NodeChangeFields[] = [],
  ) {
    super();
  }

  override info(): Info {
    const ofPod = [
      'podLabels',
      'podNodeSelector',
      'podNodeAffinity',
      'podTolerations',
      'podRequests',
    ] as const;
    const ofNodes = ['nodeLabels', 'nodeTaints', 'nodeAllocatable', 'nodeUsage'] as const;
    return new Info('changes', '1')
      .beforeFilter(Hook.changes(...ofPod))
      .beforeFilterNodes(Hook.changes(...ofNodes))
      .beforeScore(Hook.changes(...ofPod, ...ofNodes));
  }

  override beforeFilter(): PodChange {
    return new PodChange(this.pod);
  }

  override beforeFilterNodes(): NodeChange[] {
    return this.nodes.map((fields) => new NodeChange(fields));
  }

  override beforeScore(pod: Pod, nodes: readonly Node[]): ScoreChanges {
    return { pod: this.beforeFilter(), nodes: nodes.map((_, at) => new NodeChange(this.nodes[at] ?? {})) };
  }
}

const shop = new TestPod('shop');
const nodes = ['a', 'b'].map((name) => new TestNode(name));

const texts = (count: number, from = 0): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${String(from + at)}`, '']));

const required = (values: readonly string[], key = 'zone'): Affinity => ({
  required: { terms: [{ matchExpressions: [{ key, operator: 'In', values }] }] },
});

test('every change arrives as the policy wrote it', () => {
  const pod: PodChangeFields = {
    setLabels: { b: '2', a: '1' },
    removeLabels: ['c'],
    setNodeSelector: new Map([['disk', 'ssd']]),
    removeNodeSelector: ['gpu'],
    nodeAffinity: {
      required: { terms: [] },
      preferred: [
        {
          weight: 100,
          preference: { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['a'] }] },
        },
      ],
    },
    addTolerations: [
      {},
      { key: 'k', operator: 'Equal', value: 'v', effect: 'NoExecute', tolerationSeconds: 60 },
    ],
    removeTolerations: [{ key: 'k', tolerationSeconds: -(2n ** 63n) }],
    addRequests: { milliCpu: -(2n ** 63n), memory: 2n ** 63n - 1n, others: { 'example.com/gpu': 0 } },
    reason: 'as asked',
  };
  const node: NodeChangeFields = {
    addAllocatable: { ephemeralStorage: 1, others: new Map([['example.com/slots', 2n]]) },
    addUsage: { requested: { pods: -1 }, nonzero: { milliCpu: 5, memory: -5 } },
    setLabels: { zone: '' },
    removeLabels: ['rack', 'rack'],
    addTaints: [{ key: 'k', value: 'v', effect: 'NoExecute' }],
    removeTaints: [{ key: 'k' }, { key: 'l', value: 'v', effect: 'NoSchedule' }],
    holds: [
      { resources: { milliCpu: 4_000 }, users: ['u-1', { uid: 'u-2', atMost: { memory: 1 } }] },
      { resources: { pods: 1 } },
    ],
    reason: 'ä',
  };
  const policy = new Changes(pod, [{}, node]);
  assert.deepEqual(beforeFilter(policy, shop), new PodChange(pod));
  assert.deepEqual(beforeFilterNodes(policy, shop, nodes), [['b', new NodeChange(node)]]);
  assert.deepEqual(beforeScore(policy, shop, nodes), {
    pod: new PodChange(pod),
    nodes: [['b', new NodeChange(node)]],
  });
  const removed = new PodChange({ removeNodeAffinity: true });
  assert.deepEqual(beforeFilter(new Changes(removed), shop), removed);
});

test('a change that changes nothing is none', () => {
  const nothing = {
    addUsage: { requested: {}, nonzero: { memory: 0 } },
    addAllocatable: { pods: 0n },
    reason: 'r',
  };
  const policy = new Changes({ setLabels: {}, addRequests: {}, reason: 'r' }, [nothing, {}]);
  assert.equal(beforeFilter(policy, shop), undefined);
  assert.deepEqual(beforeFilterNodes(policy, shop, nodes), []);
});

test('a change does not depend on what it was made of', () => {
  const labels = { a: '1' };
  const keys = ['b'];
  const terms = [{ matchFields: [] }];
  const change = new PodChange({
    setLabels: labels,
    removeLabels: keys,
    nodeAffinity: { required: { terms } },
  });
  labels.a = '2';
  keys.push('c');
  terms.pop();
  assert.deepEqual([change.setLabels.get('a'), change.removeLabels], ['1', ['b']]);
  assert.equal(change.nodeAffinity?.required?.terms.length, 1);
});

test('the affinity of a pod can be changed', () => {
  class Prefers extends Policy {
    override info(): Info {
      return new Info('prefers', '1').beforeFilter(Hook.changes('podNodeAffinity'));
    }

    override beforeFilter(pod: Pod): PodChange {
      const preference = { matchExpressions: [{ key: 'disk', operator: 'Exists' }] };
      const preferred = [...(pod.nodeAffinity?.preferred ?? []), { weight: 7, preference }];
      return new PodChange({ nodeAffinity: { ...pod.nodeAffinity, preferred } });
    }
  }
  const pod = shop.nodeAffinity({
    required: { terms: [{ matchExpressions: [], matchFields: [] }] },
    preferred: [{ weight: 1, preference: undefined }],
  });
  const affinity = beforeFilter(new Prefers(), pod)?.nodeAffinity;
  assert.equal(affinity?.required?.terms.length, 1);
  assert.deepEqual(
    affinity.preferred?.map(({ weight }) => weight),
    [1, 7],
  );
});

test('a long reason is cut', () => {
  assert.equal(
    beforeFilter(new Changes({ removeLabels: ['a'], reason: 'ä'.repeat(101) }), shop)?.reason,
    'ä'.repeat(100),
  );
});

test('changes of the pod have limits', () => {
  const long = 'ä'.repeat(129);
  const key = 'k'.repeat(318);
  const many = Array.from({ length: 1023 }, () => 'v');
  const cases: [PodChangeFields, string | undefined][] = [
    [{ setLabels: texts(64) }, undefined],
    [{ setLabels: { ['k'.repeat(317)]: 'ä'.repeat(128) } }, undefined],
    [{ setLabels: { '': 'v' } }, 'has a key of 0 bytes in setLabels; expected 1 to 317'],
    [{ removeLabels: [key] }, 'has a key of 318 bytes in removeLabels; expected 1 to 317'],
    [{ setLabels: { a: long } }, 'has 258 bytes in setLabels["a"]; expected at most 256'],
    [{ setNodeSelector: { '': '' } }, 'has a key of 0 bytes in setNodeSelector; expected 1 to 317'],
    [{ removeNodeSelector: [''] }, 'has a key of 0 bytes in removeNodeSelector; expected 1 to 317'],
    [{ addTolerations: [{ key }] }, 'has 318 bytes in addTolerations[0].key; expected at most 317'],
    [
      { removeTolerations: [{}, { value: long }] },
      'has 258 bytes in removeTolerations[1].value; expected at most 256',
    ],
    [
      { addTolerations: [{ tolerationSeconds: 2n ** 63n }] },
      'has 9223372036854775808 in addTolerations[0].tolerationSeconds; expected an integer of 64 bits',
    ],
    [
      { addRequests: { memory: 2n ** 63n } },
      'has 9223372036854775808 in addRequests.memory; expected an integer of 64 bits',
    ],
    [{ addRequests: { others: { '': 1 } } }, 'has a key of 0 bytes in addRequests.others; expected 1 to 317'],
    [
      { addRequests: { others: { a: -(2n ** 63n) - 1n } } },
      'has -9223372036854775809 in addRequests.others["a"]; expected an integer of 64 bits',
    ],
    [
      {
        setLabels: texts(20),
        removeLabels: Object.keys(texts(10)),
        setNodeSelector: texts(10),
        removeNodeSelector: Object.keys(texts(5)),
        addTolerations: Array.from({ length: 10 }, () => ({})),
        removeTolerations: Array.from({ length: 8 }, () => ({})),
        addRequests: { others: { a: 1, b: 1 } },
      },
      'has 65 entries in its maps and lists; expected at most 64',
    ],
    [
      { nodeAffinity: {}, removeNodeAffinity: true },
      'has nodeAffinity and removeNodeAffinity; expected one of them',
    ],
    [{ nodeAffinity: required(many.slice(1)) }, undefined],
    [
      { nodeAffinity: required(many) },
      'has 1025 terms, requirements and values in nodeAffinity; expected at most 1024',
    ],
    [{ nodeAffinity: required([], '') }, 'has a key of 0 bytes in nodeAffinity; expected 1 to 317'],
    [{ nodeAffinity: required([long]) }, 'has 258 bytes in nodeAffinity; expected at most 256'],
    [
      { nodeAffinity: { preferred: [{ weight: 1.5, preference: {} }] } },
      'has the weight 1.5 in nodeAffinity; expected an integer, 1 to 100',
    ],
    [
      { nodeAffinity: { preferred: [{ weight: 0, preference: {} }] } },
      'has the weight 0 in nodeAffinity; expected an integer, 1 to 100',
    ],
    [
      { nodeAffinity: { preferred: [{ weight: 101, preference: {} }] } },
      'has the weight 101 in nodeAffinity; expected an integer, 1 to 100',
    ],
    [
      { nodeAffinity: required(Array.from({ length: 256 }, () => 'v'.repeat(256))) },
      'has a nodeAffinity of 66326 bytes; expected at most 65536',
    ],
  ];
  for (const [fields, expected] of cases) {
    if (expected === undefined) {
      assert.deepEqual(beforeFilter(new Changes(fields), shop), new PodChange(fields));
    } else {
      const message = `beforeFilter returned a PodChange that ${expected}`;
      assert.throws(() => beforeFilter(new Changes(fields), shop), { name: 'CallError', message });
    }
  }
  assert.throws(() => beforeFilter(new Changes({ addRequests: { pods: 0.5 } }), shop), /0\.5/);
});

test('changes of nodes have limits', () => {
  const long = 'v'.repeat(257);
  const cases: [NodeChangeFields, string][] = [
    [{ setLabels: { '': 'v' } }, 'has a key of 0 bytes in setLabels; expected 1 to 317'],
    [{ removeLabels: [''] }, 'has a key of 0 bytes in removeLabels; expected 1 to 317'],
    [
      { addTaints: [{ key: '', effect: 'NoSchedule' }] },
      'has a key of 0 bytes in addTaints[0]; expected 1 to 317',
    ],
    [
      { addTaints: [{ key: 'k', effect: '' }] },
      'has the effect "" in addTaints[0]; expected one of NoSchedule, PreferNoSchedule, NoExecute',
    ],
    [
      { removeTaints: [{ key: 'k', value: long }] },
      'has 257 bytes in removeTaints[0].value; expected at most 256',
    ],
    [
      { removeTaints: [{ key: 'k', effect: long }] },
      'has 257 bytes in removeTaints[0].effect; expected at most 256',
    ],
    [
      { addAllocatable: { others: { '': 1 } } },
      'has a key of 0 bytes in addAllocatable.others; expected 1 to 317',
    ],
    [
      { addUsage: { requested: { milliCpu: 2n ** 63n } } },
      'has 9223372036854775808 in addUsage.requested.milliCpu; expected an integer of 64 bits',
    ],
    [{ holds: [{ resources: { memory: -1 } }] }, 'has a negative amount in holds'],
    [
      { holds: [{ resources: {}, users: ['u'.repeat(65)] }] },
      'has a user with a UID of 65 bytes in holds; expected 1 to 64',
    ],
    [
      { holds: [{ resources: {}, users: Array.from({ length: 1025 }, String) }] },
      'has 1025 users in holds; expected at most 1024',
    ],
    [
      { addUsage: { nonzero: { memory: 2n ** 63n } } },
      'has 9223372036854775808 in addUsage.nonzero.memory; expected an integer of 64 bits',
    ],
    [
      {
        setLabels: texts(30),
        removeLabels: Object.keys(texts(10)),
        addTaints: Array.from({ length: 10 }, () => ({ key: 'k', effect: 'NoSchedule' })),
        removeTaints: Array.from({ length: 12 }, () => ({ key: 'k' })),
        addAllocatable: { others: { a: 1, b: 1 } },
        addUsage: { requested: { others: { a: 1 } } },
      },
      'has 65 entries in its maps and lists; expected at most 64',
    ],
  ];
  for (const [fields, expected] of cases) {
    const policy = new Changes({}, [{}, fields]);
    const message = (hook: string): string => `${hook} returned a NodeChange for position 1 that ${expected}`;
    assert.throws(() => beforeFilterNodes(policy, shop, nodes), { message: message('beforeFilterNodes') });
    assert.throws(() => beforeScore(policy, shop, nodes), { message: message('beforeScore') });
  }
});

test('the answer to a hook has a limit', () => {
  const value = 'v'.repeat(256);
  const large = (at: number): NodeChangeFields => ({
    setLabels: Object.fromEntries(Object.keys(texts(64, at)).map((key) => [key, value])),
  });
  const policy = new Changes({}, [0, 1, 2, 3, 4].map(large));
  const five = ['a', 'b', 'c', 'd', 'e'].map((name) => new TestNode(name));
  const expected =
    /^beforeFilterNodes returned changes of \d+ bytes for 5 nodes; expected at most 70656, change fewer things or several nodes alike$/;
  const failed = (run: () => unknown, pattern: RegExp): void => {
    assert.throws(run, (error: Error) => pattern.test(error.message));
  };
  failed(() => beforeFilterNodes(policy, shop, five), expected);
  failed(() => beforeScore(policy, shop, five), /^beforeScore returned changes of \d+ bytes for 5 nodes/);
  const alike = new Changes({}, [0, 0, 0, 0, 0].map(large));
  assert.equal(beforeFilterNodes(alike, shop, five).length, 5);
  const tolerations = Array.from({ length: 64 }, () => ({
    key: 'k'.repeat(317),
    operator: value,
    value,
    effect: value,
  }));
  const nodeAffinity = required(Array.from({ length: 250 }, () => value));
  failed(
    () => beforeFilter(new Changes({ addTolerations: tolerations, nodeAffinity }), shop),
    /^beforeFilter returned changes of \d+ bytes; expected at most 131072, change fewer things$/,
  );
});

test('a hook is told what the gateway would send for its declaration', () => {
  const reads = new Reads();
  const [app, zone, byOwner] = [reads.podLabel('app'), reads.nodeLabel('zone'), reads.podsBy(PodsBy.owner)];
  class Told extends Policy {
    override info(): Info {
      const podReads = new Reads();
      podReads.podLabel('app');
      return new Info('told', '1')
        .beforeFilter(Hook.changes('podLabels').pure().reads(podReads))
        .beforeFilterNodes(Hook.changes('nodeLabels').pure().usage().reads(reads));
    }

    override beforeFilter(pod: Pod): PodChange {
      return new PodChange({ setLabels: { app: pod.get(app) ?? 'none' } });
    }

    override beforeFilterNode(pod: Pod, node: Node): NodeChange {
      const seen = [
        pod.get(app),
        node.get(zone),
        node.usage?.requested.pods,
        node.podsLike(byOwner, pod)?.atMost,
      ];
      return new NodeChange({ setLabels: { seen: seen.join(' ') } });
    }
  }
  const pod = shop.label('app', 'web').owner('o');
  const node = new TestNode('a').label('zone', 'z').usage({ pods: 3 }).running(pod, 2);
  for (const policy of [new Told(), everything(new Told())]) {
    assert.deepEqual(beforeFilter(policy, pod), new PodChange({ setLabels: { app: 'web' } }));
    assert.deepEqual(beforeFilterNodes(policy, pod, [node]), [
      ['a', new NodeChange({ setLabels: { seen: 'web z 3 2' } })],
    ]);
  }
  assert.throws(() => beforeScore(new Told(), pod, [node]), /does not serve BeforeScore/);
  assert.throws(() => filter(new Told(), pod, [node]), /does not serve Filter/);
});

test('what a hook reads must be declared, unless everything is sent', () => {
  class Reading extends Policy {
    override info(): Info {
      const hook = Hook.changes('nodeLabels').reads(new Reads());
      return new Info('reading', '1')
        .beforeFilter(Hook.changes('podLabels').reads(new Reads()))
        .beforeFilterNodes(hook)
        .beforeScore(hook);
    }

    override beforeFilter(pod: Pod): PodChange {
      return new PodChange({ setLabels: { seen: pod.namespace } });
    }

    override beforeFilterNode(pod: Pod): NodeChange {
      return new NodeChange({ setLabels: { seen: pod.namespace } });
    }

    override beforeScore(pod: Pod): ScoreChanges {
      return { nodes: nodes.map(() => this.beforeFilterNode(pod)) };
    }
  }
  for (const hook of [beforeFilter, beforeFilterNodes, beforeScore]) {
    assert.throws(() => hook(new Reading(), shop, nodes), /namespace of the pod is read and not declared/);
    assert.doesNotThrow(() => hook(everything(new Reading()), shop, nodes));
  }
});

test('hooks that a policy does not override change nothing', () => {
  class Silent extends Policy {
    override info(): Info {
      return new Info('silent', '1')
        .filters(Verb.perNode())
        .beforeFilter(Hook.changes('podLabels'))
        .beforeFilterNodes(Hook.changes('nodeLabels'))
        .beforeScore(Hook.changes('nodeLabels'));
    }
  }
  assert.equal(beforeFilter(new Silent(), shop), undefined);
  assert.deepEqual(beforeFilterNodes(new Silent(), shop, nodes), []);
  assert.deepEqual(beforeScore(new Silent(), shop, nodes), { pod: undefined, nodes: [] });
});
