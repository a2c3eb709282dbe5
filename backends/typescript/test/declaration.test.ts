import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Declaration } from '../src/declaration.js';
import { Bind, Hook, Info, Policy, PodsBy, Reads, Scale, Verb } from '../src/index.js';
import { GetInfoResponse } from '../src/gen/extender/policy/v1alpha1/info.js';

const pure = new Info('p', '1').filters(Verb.perNode().pure());

function mistakes(info: Info): string {
  try {
    new Declaration(info);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return '';
}

test('each mistake of a declaration is named', () => {
  const reads = (declare: (reads: Reads) => unknown): Reads => {
    const declared = new Reads();
    declare(declared);
    return declared;
  };
  const filters = (declare: (reads: Reads) => unknown): Info =>
    pure.filters(Verb.perNode().reads(reads(declare)));
  const scores = (scale: Scale): Info => new Info('p', '1').scores(Verb.perNode(), scale);
  const many = (count: number, declare: (at: string) => unknown): void => {
    Array.from({ length: count }, (_, at) => declare(String(at)));
  };
  const cases: [Info, string][] = [
    [
      new Info('p', '1'),
      'no verb is declared; call Info.filters, Info.scores, Info.preempts, Info.binds, or a hook such as Info.beforeFilter',
    ],
    [new Info('', '1').filters(Verb.perNode()), 'name has 0 bytes; expected 1 to 63'],
    [new Info('ä'.repeat(32), '1').filters(Verb.perNode()), 'name has 64 bytes; expected 1 to 63'],
    [new Info('p', '').filters(Verb.perNode()), 'version has 0 bytes; expected 1 to 64'],
    [pure.revision('r'.repeat(65)), 'revision has 65 bytes; expected 1 to 64'],
    [new Info('p', '1').preempts(Verb.perNode().pure()), 'preempt cannot be pure'],
    [pure.rawPod(), 'filter is pure and has Info.rawPod; remove one'],
    [pure.filters(Verb.wholeSet().pure()), 'filter is pure and has Verb.wholeSet; remove one'],
    [
      pure.filters(Verb.perNode().pure().sideEffects()),
      'filter is pure and has Verb.sideEffects; remove one',
    ],
    [
      pure.filters(Verb.perNode().pure().view('factsAndRaw')),
      "filter is pure and has the view 'factsAndRaw'; remove one",
    ],
    [
      pure.filters(Verb.perNode().view('name').usage()),
      "filter has Verb.usage and the view 'name'; use the view 'facts'",
    ],
    [scores(Scale.unbounded().reversed()), "a reversed scale requires a normalization, such as 'minMax'"],
    [
      scores(Scale.unbounded().normalize('range')),
      "the normalization 'range' needs Scale.between with two different bounds",
    ],
    [scores(Scale.between(3, 3).normalize('range')), 'two different bounds'],
    [scores(Scale.between(1, 0)), 'the scale 1 to 0 is empty; expected min and max'],
    [scores(Scale.between(0, 2 ** 31)), 'the scale 0 to 2147483648 is not one of integers of 32 bits'],
    [filters((of) => of.nodeLabel('')), 'filter reads: Reads.nodeLabel("") has 0 bytes; expected 1 to 317'],
    [filters((of) => of.podAnnotations('x'.repeat(318))), 'has 318 bytes; expected 0 to 317'],
    [
      filters((of) => of.podsBy(PodsBy.label(''))),
      'Reads.podsBy(PodsBy.label("")) has a key of 0 bytes; expected 1 to 317',
    ],
    [
      filters((of) => {
        many(1001, (key) => of.nodeLabel(key));
      }),
      'there are 1001 keys and prefixes; expected at most 1000, use a prefix for several keys',
    ],
    [
      filters((of) => {
        many(9, (key) => of.podsBy(PodsBy.label(key)));
      }),
      'pods are counted by 9 attributes; expected at most 8',
    ],
    [
      filters((of) => {
        many(9, (key) => of.podsByTopology(PodsBy.owner, key));
      }),
      'pods are counted by 9 topologies; expected at most 8',
    ],
    [
      pure.filters(Verb.perNode().pure().reads(new Reads().pod('identity'))),
      "filter is pure and reads the part 'identity', but a pure verb is not sent the pod's name and UID; remove one",
    ],
    [
      pure.filters(Verb.perNode().view('name').reads(new Reads().node('taints'))),
      "filter reads nodes and has the view 'name'; use the view 'facts'",
    ],
    [new Info('p', '1').binds(new Reads().node('taints')), 'bind reads nodes, but is sent only their names'],
    [
      new Info('p', '1').preempts(Verb.perNode().reads(reads((of) => of.podsByTopology(PodsBy.owner, '')))),
      'preempt reads counts by topology, which only filter and score are sent',
    ],
  ];
  for (const [info, expected] of cases) {
    const found = mistakes(info);
    assert.ok(found.includes(expected), `${found} lacks ${expected}`);
  }
});

test('each mistake of a hook is named', () => {
  const info = new Info('p', '1');
  const [pod, nodes] = [Hook.changes('podLabels'), Hook.changes('nodeLabels')];
  const reading = (declare: (reads: Reads) => unknown): Reads => {
    const reads = new Reads();
    declare(reads);
    return reads;
  };
  const named = reading((of) => of.node('name'));
  const topology = reading((of) => of.podsByTopology(PodsBy.owner, ''));
  const noNodes = 'but is not told about nodes; remove that, or use beforeFilterNodes';
  const noTopology =
    'reads counts by topology, which only filter and score are sent; remove Reads.podsByTopology from its declaration';
  const nothing = "changes nothing; name what it changes, as in Hook.changes('nodeLabels')";
  const cases: [Info, string[]][] = [
    [info.beforeFilter(pod).beforeFilterNodes(nodes).beforeScore(Hook.changes('podLabels', 'nodeUsage')), []],
    [info.beforeFilter(Hook.changes()), [`beforeFilter ${nothing}`]],
    [info.beforeFilterNodes(Hook.changes()), [`beforeFilterNodes ${nothing}`]],
    [info.beforeScore(Hook.changes()), [`beforeScore ${nothing}`]],
    [
      info.beforeFilter(Hook.changes('nodeLabels', 'nodeLabels')),
      [
        "beforeFilter cannot change 'nodeLabels'; it changes the pod alone: podLabels, podNodeSelector, podNodeAffinity, podTolerations, podRequests",
      ],
    ],
    [
      info.beforeFilterNodes(Hook.changes('podRequests', 'nodeLabels')),
      [
        "beforeFilterNodes cannot change 'podRequests'; it changes nodes alone: nodeLabels, nodeTaints, nodeAllocatable, nodeUsage",
      ],
    ],
    [
      info.beforeScore(Hook.changes('toString' as 'podLabels')),
      [
        "beforeScore cannot change 'toString'; it changes pod and nodes: podLabels, podNodeSelector, podNodeAffinity, podTolerations, podRequests, nodeLabels, nodeTaints, nodeAllocatable, nodeUsage",
      ],
    ],
    [
      info.beforeScore(Hook.changes('podLabels', 'nodeLabels', 'podRequests').pure()),
      [
        "beforeScore is pure and changes 'podLabels', 'podRequests', but a pure one changes nodes alone; remove one",
      ],
    ],
    [info.beforeScore(nodes.pure()), []],
    [info.beforeFilter(pod.pure().wholeSet()), [`beforeFilter has Hook.wholeSet, ${noNodes}`]],
    [info.beforeFilter(pod.pure().view('factsAndRaw')), [`beforeFilter has Hook.view, ${noNodes}`]],
    [info.beforeFilter(pod.usage()), [`beforeFilter has Hook.usage, ${noNodes}`]],
    [info.beforeFilter(pod.reads(named)), [`beforeFilter reads nodes, ${noNodes}`]],
    [
      info.beforeFilter(pod.view('name').reads(reading((of) => of.nodeLabel('zone')))),
      [`beforeFilter has Hook.view, ${noNodes}`, `beforeFilter reads nodes, ${noNodes}`],
    ],
    [info.beforeFilter(pod.reads(topology)), [`beforeFilter ${noTopology}`]],
    [info.beforeFilterNodes(nodes.reads(topology)), [`beforeFilterNodes ${noTopology}`]],
    [info.beforeScore(nodes.reads(topology)), [`beforeScore ${noTopology}`]],
    [
      info.beforeFilterNodes(nodes.pure().wholeSet()),
      ['beforeFilterNodes is pure and has Hook.wholeSet; remove one'],
    ],
    [info.beforeFilter(pod.pure()).rawPod(), ['beforeFilter is pure and has Info.rawPod; remove one']],
    [
      info.beforeScore(nodes.view('name').usage()),
      ["beforeScore has Hook.usage and the view 'name'; use the view 'facts'"],
    ],
    [
      info.beforeFilter(pod.pure().reads(reading((of) => of.pod('identity')))),
      [
        "beforeFilter is pure and reads the part 'identity', but a pure verb is not sent the pod's name and UID; remove one",
      ],
    ],
    [
      info.beforeFilterNodes(nodes.view('name').reads(reading((of) => of.nodeLabel('zone')))),
      ["beforeFilterNodes reads nodes and has the view 'name'; use the view 'facts'"],
    ],
  ];
  for (const [declared, expected] of cases) {
    assert.equal(
      mistakes(declared),
      expected.length === 0 ? '' : `invalid policy info: ${expected.join('; ')}`,
    );
  }
});

test('all mistakes come together', () => {
  const info = new Info('', '1').scores(Verb.wholeSet().pure(), Scale.unbounded().reversed());
  assert.equal(mistakes(info).split('; ').length, 5, mistakes(info));
});

test('a declaration has the same id in each process, and no two the same', () => {
  const reads = new Reads().node('taints', 'name').pod('requests');
  reads.nodeLabel('zone');
  // As every build of every SDK that encodes the same declaration computes it.
  assert.equal(reads.id, 528_833_178);
  const ids = new Set<number>([reads.id]);
  const others: ((of: Reads) => unknown)[] = [
    () => undefined,
    (of) => of.nodeLabel('a'),
    (of) => of.nodeLabels('a'),
    (of) => of.nodeAnnotation('a'),
    (of) => of.podLabel('a'),
    (of) => of.podsBy(PodsBy.owner),
    (of) => of.podsAndRequestsBy(PodsBy.owner),
    (of) => of.podsByTopology(PodsBy.owner, 'zone'),
    (of) => of.podsByTopology(PodsBy.owner, ''),
  ];
  for (const declare of others) {
    const other = new Reads();
    declare(other);
    assert.ok(other.id > 0 && !ids.has(other.id));
    ids.add(other.id);
  }
});

test('keys are sent in the order of their bytes, and none that a prefix covers', () => {
  const reads = new Reads();
  for (const key of ['\u{1f600}', '\uffff', 'z', 'acme.io/b', 'acme.io/a', 'a', 'a']) {
    reads.nodeLabel(key);
  }
  reads.nodeLabels('acme.io/');
  reads.nodeLabels('acme.io/x');
  reads.podLabel('p');
  reads.node('name', 'taints');
  const [filter] = new Declaration(new Info('p', '1').filters(Verb.perNode().reads(reads))).response.verbs;
  assert.deepEqual(filter?.reads?.node, {
    parts: [1, 6],
    labels: { keys: ['a', 'z', '\uffff', '\u{1f600}'], prefixes: ['acme.io/'] },
    annotations: undefined,
    podCounts: [],
  });
  assert.deepEqual(filter.reads.pod?.labels, { keys: ['p'], prefixes: [] });
});

test('what is declared after a verb was made is not a part of it', () => {
  const reads = new Reads();
  const verb = Verb.perNode().reads(reads);
  reads.nodeLabel('late');
  const [filter] = new Declaration(new Info('p', '1').filters(verb)).response.verbs;
  assert.equal(filter?.reads?.node, undefined);
});

test('a verb that reads nothing but names of nodes gets a view of names, and no table', () => {
  const reads = new Reads().node('name').pod('requests');
  const { response } = new Declaration(new Info('p', '1').filters(Verb.perNode().reads(reads)));
  assert.deepEqual(
    [response.verbs[0]?.nodeView, response.services, response.verbs[0]?.reads?.node],
    [1, [], undefined],
  );
  const without = new Declaration(pure.withoutNodeTable()).response;
  assert.deepEqual([without.verbs[0]?.nodeView, without.services], [2, []]);
});

test('the handshake can be encoded, with everything that can be declared', () => {
  const info = new Info('p', '1')
    .filters(Verb.wholeSet().view('factsAndRaw').sideEffects().usage())
    .scores(Verb.perNode(), Scale.between(-5, 5).normalize('range').reversed())
    .preempts(Verb.perNode())
    .binds()
    .annotations('a', '')
    .rawPod();
  const { response } = new Declaration(info);
  assert.deepEqual(GetInfoResponse.decode(GetInfoResponse.encode(response).finish()), response);
  const [filter, score, , bind] = response.verbs;
  assert.deepEqual([filter?.sideEffects, filter?.usage, filter?.scope, filter?.nodeView], [true, true, 2, 3]);
  assert.deepEqual(
    [score?.scoreMin, score?.scoreMax, score?.normalization, score?.reversed],
    [-5, 5, 2, true],
  );
  assert.deepEqual([bind?.verb, bind?.nodeView, bind?.reads], [4, 0, undefined]);
  assert.deepEqual([response.podRaw, response.annotationPrefixes], [true, ['a', '']]);
});

test('a policy that does not override them accepts, evicts and declines', async () => {
  class Silent extends Policy {
    override info(): Info {
      return pure;
    }
  }
  const bind = await new Silent().bind({} as never);
  assert.ok(bind instanceof Bind && bind.why === 'this policy does not bind');
});
