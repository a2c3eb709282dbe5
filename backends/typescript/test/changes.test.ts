/** What hooks may change, tried without a server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
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
      'podAnnotations',
      'podNodeSelector',
      'podNodeAffinity',
      'podAffinity',
      'podTopologySpread',
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

test('every change arrives as the policy wrote it', () => {
  const pod: PodChangeFields = {
    setLabels: { b: '2', a: '1' },
    removeLabels: ['c'],
    setAnnotations: { note: 'n' },
    removeAnnotations: ['old'],
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
    podAffinity: {
      required: [{ topologyKey: 'zone', selector: {} }],
      antiPreferred: [
        { weight: 1, term: { topologyKey: 'host', selector: { matchLabels: new Map([['app', 'db']]) } } },
      ],
    },
    topologySpread: [
      { maxSkew: 2, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', minDomains: 0 },
      { maxSkew: 1, topologyKey: 'host', whenUnsatisfiable: 'DoNotSchedule', matchLabelKeys: ['app'] },
    ],
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
  for (const removed of [{ removeNodeAffinity: true }, { podAffinity: {} }, { topologySpread: [] }]) {
    const change = new PodChange(removed);
    assert.deepEqual(beforeFilter(new Changes(removed), shop), change);
    assert.notDeepEqual(change, new PodChange({}));
  }
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
      return new Info('prefers', '1').beforeFilter(
        Hook.changes('podNodeAffinity').reads(new Reads().pod('nodeAffinity')),
      );
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

test('the affinity to pods and the spread of a pod can be extended with what it has', () => {
  class Spreads extends Policy {
    override info(): Info {
      return new Info('spreads', '1').beforeFilter(
        Hook.changes('podAffinity', 'podTopologySpread').reads(
          new Reads().pod('podAffinity', 'topologySpread'),
        ),
      );
    }

    override beforeFilter({ podAffinity, topologySpread }: Pod): PodChange {
      const term = { topologyKey: 'rack' };
      return new PodChange({
        podAffinity: { ...podAffinity, required: [...(podAffinity?.required ?? []), term] },
        topologySpread: [...topologySpread, { ...term, maxSkew: 3 }],
      });
    }
  }
  const selector = { matchExpressions: [{ key: 'app', operator: 'In', values: ['web'] }] };
  const term = { topologyKey: 'zone', selector, namespaces: ['shop'], namespaceSelector: {} };
  const given = {
    podAffinity: { required: [term], antiRequired: [term], preferred: [{ weight: 5, term }] },
    topologySpread: [{ maxSkew: 1, topologyKey: 'zone', selector, minDomains: 2, nodeTaintsPolicy: 'Honor' }],
  };
  assert.deepEqual(
    beforeFilter(new Spreads(), shop.facts(given)),
    new PodChange({
      podAffinity: { ...given.podAffinity, required: [term, { topologyKey: 'rack' }] },
      topologySpread: [...given.topologySpread, { topologyKey: 'rack', maxSkew: 3 }],
    }),
  );
});

test('a change of what the hook does not declare is named', () => {
  const fields: [PodChangeFields | NodeChangeFields, string][] = [
    [{ removeLabels: ['a'] }, 'Labels'],
    [{ setAnnotations: { a: '' } }, 'Annotations'],
    [{ removeAnnotations: ['a'] }, 'Annotations'],
    [{ setNodeSelector: { a: '' } }, 'NodeSelector'],
    [{ removeNodeAffinity: true }, 'NodeAffinity'],
    [{ podAffinity: {} }, 'Affinity'],
    [{ topologySpread: [] }, 'TopologySpread'],
    [{ addTolerations: [{}] }, 'Tolerations'],
    [{ addRequests: { pods: 1 } }, 'Requests'],
    [{ setLabels: { a: '' } }, 'nodeLabels'],
    [{ removeTaints: [{ key: 'a' }] }, 'nodeTaints'],
    [{ addAllocatable: { pods: 1 } }, 'nodeAllocatable'],
    [{ holds: [{ resources: { pods: 1 } }] }, 'nodeUsage'],
  ];
  class Undeclared extends Changes {
    override info(): Info {
      return new Info('undeclared', '1').beforeFilter(Hook.changes()).beforeFilterNodes(Hook.changes());
    }
  }
  for (const [change, named] of fields) {
    const [field = ''] = Object.keys(change);
    const isNode = named.startsWith('node');
    const part = isNode ? named : `pod${named}`;
    const hook = isNode ? 'beforeFilterNodes' : 'beforeFilter';
    const expected = `${hook} changes ${part} (${field}) and does not declare it; declare it with Hook.changes('${part}')`;
    assert.throws(
      () =>
        isNode
          ? beforeFilterNodes(new Undeclared({}, [{}, change]), shop, nodes)
          : beforeFilter(new Undeclared(change), shop),
      { name: 'AssertionError', message: expected },
    );
  }
});

test('a long reason is cut', () => {
  assert.equal(
    beforeFilter(new Changes({ removeLabels: ['a'], reason: 'ä'.repeat(101) }), shop)?.reason,
    'ä'.repeat(100),
  );
});

test('an amount that is no integer of 64 bits fails the call', () => {
  for (const memory of [2n ** 63n, -(2n ** 63n) - 1n]) {
    assert.throws(() => beforeFilter(new Changes({ addRequests: { memory } }), shop), /too large/);
    assert.throws(
      () => beforeFilterNodes(new Changes({}, [{}, { addAllocatable: { memory } }]), shop, nodes),
      /too large/,
    );
  }
  assert.throws(() => beforeFilter(new Changes({ addRequests: { pods: 0.5 } }), shop), /0\.5/);
});

test('a hook is told what the gateway would send for its declaration', () => {
  const reads = new Reads().node('usage');
  const [app, zone, byOwner] = [reads.podLabel('app'), reads.nodeLabel('zone'), reads.podsBy(PodsBy.owner)];
  class Told extends Policy {
    override info(): Info {
      const podReads = new Reads();
      podReads.podLabel('app');
      return new Info('told', '1')
        .beforeFilter(Hook.changes('podLabels').pure().reads(podReads))
        .beforeFilterNodes(Hook.changes('nodeLabels').pure().reads(reads));
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
