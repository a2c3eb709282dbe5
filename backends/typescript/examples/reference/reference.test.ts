import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NodeChange, PodChange } from '@extender-gateway/policy';
import {
  beforeFilter,
  beforeFilterNodes,
  beforeScore,
  bind,
  filterInDetail,
  info,
  introspect,
  preempt,
  score,
  TestCandidate,
  TestNode,
  TestPod,
  withArgs,
} from '@extender-gateway/policy/testing';

import { reference } from './reference.js';

const policy = withArgs(reference, { zone: 'closed', most: 2 });
const pod = new TestPod('shop').label('app', 'z1').owner('o').requests({ milliCpu: 1000 });
const node = new TestNode('n').label('zone', 'z1').allocatable({ milliCpu: 4000 });

function verdict(of: TestNode, by = pod): string {
  const [found] = filterInDetail(policy, by, [of]);
  return found === undefined
    ? 'accepted'
    : `${found.rule}: ${found.reason}${found.preemptionMayHelp ? ' *' : ''}`;
}

test('the args are shown', async () => {
  assert.deepEqual(await introspect(policy, '/args'), { zone: 'closed', most: 2 });
});

test('the first rule that holds rejects', () => {
  assert.equal(verdict(node), 'accepted');
  const tainted = node.taint('t', '', 'NoExecute');
  assert.equal(verdict(tainted.label('zone', 'closed')), 'zone: zone is closed');
  assert.equal(verdict(tainted.allocatable({})), 'taints: taint is not tolerated');
  assert.equal(verdict(node.taint('t', '', 'PreferNoSchedule')), 'accepted');
  assert.equal(verdict(tainted, pod.toleration({ operator: 'Exists' })), 'accepted');
  assert.equal(verdict(node.allocatable({ milliCpu: 999 }).running(pod, 2)), 'cpu: not enough CPU *');
  assert.equal(verdict(new TestNode('n')), 'cpu: not enough CPU *');
  assert.equal(verdict(node.running(pod, 2)), 'owner: too many pods of one owner');
  assert.equal(verdict(node.running(pod, 1)), 'accepted');
  assert.equal(verdict(node.running(pod, 2), new TestPod('shop')), 'accepted');
  const huge = { milliCpu: 2n ** 63n - 1n };
  assert.equal(
    verdict(node.allocatable({ milliCpu: 2n ** 63n - 2n }), pod.requests(huge)),
    'cpu: not enough CPU *',
  );
});

test('scores count CPUs, taints and the zone, and are clamped', () => {
  const nodes = [
    node,
    node.label('zone', 'z2').taint('a', '', 'NoSchedule'),
    node.allocatable({ milliCpu: 2n ** 62n }),
    node.allocatable({ milliCpu: -500 }),
    Array.from({ length: 30 }).reduce<TestNode>((of) => of.taint('a', '', 'NoSchedule'), node),
  ];
  assert.deepEqual(score(policy, pod, nodes), [50, -10, 1_000_000, 10, -1000]);
  assert.deepEqual(score(policy, new TestPod('shop'), [node, new TestNode('n')]), [40, 0]);
});

test('only known victims of lower priority are evicted', () => {
  const candidates = [
    new TestCandidate(node)
      .victim('low', pod.priority(1))
      .unknownVictim('unknown')
      .victim('equal', pod.priority(5)),
    new TestCandidate(node).unknownVictim('unknown'),
    new TestCandidate(node).victim('low', pod),
  ];
  assert.deepEqual(preempt(policy, pod.priority(5), candidates), [
    ['n', ['low']],
    ['n', ['low']],
  ]);
});

test('pods are bound, but not those of system, and not on broken', async () => {
  assert.equal((await bind(policy, pod, 'n')).isBound, true);
  assert.equal(
    (await bind(policy, new TestPod('system'), 'broken')).why,
    'namespace system is bound elsewhere',
  );
  await assert.rejects(bind(policy, pod, 'broken'), /^CallError: node broken refuses pods$/);
});

test('the pod is changed before filter by its app', () => {
  assert.equal(beforeFilter(policy, new TestPod('shop')), undefined);
  const noApp = new PodChange({ removeLabels: ['app'], reason: 'the zone is no app' });
  assert.deepEqual(beforeFilter(policy, pod.label('app', 'closed')), noApp);
  const more = new PodChange({
    addRequests: { milliCpu: 500 },
    setNodeSelector: { zone: 'closed' },
    addTolerations: [{ key: 'app', operator: 'Exists' }],
    reason: 'apps need more',
  });
  assert.deepEqual(beforeFilter(policy, pod), more);
});

test('nodes are changed before filter by zone and app', () => {
  const zoneless = new NodeChange({
    addTaints: [{ key: 'zone', effect: 'PreferNoSchedule' }],
    removeTaints: [{ key: 'zoneless' }],
  });
  const reserved = new NodeChange({
    addAllocatable: { milliCpu: 1000, others: { 'example.com/slots': 1 } },
    reason: 'reserved for the app',
  });
  const nodes = [new TestNode('none'), node, new TestNode('else').label('zone', 'z2')];
  assert.deepEqual(beforeFilterNodes(policy, pod, nodes), [
    ['none', zoneless],
    ['n', reserved],
  ]);
  assert.deepEqual(beforeFilterNodes(policy, new TestPod('shop'), nodes), [['none', zoneless]]);
});

test('pod and nodes are changed before score', () => {
  const closes = new NodeChange({
    setLabels: { zone: 'closed' },
    addUsage: { requested: { milliCpu: -100, pods: -1 } },
    reason: 'closed',
  });
  const unzoned = new NodeChange({ removeLabels: ['zone'] });
  const nodes = [new TestNode('closed').label('zone', 'closed'), node, new TestNode('none')];
  const changed = [
    ['closed', closes],
    ['none', unzoned],
  ];
  const moved = new PodChange({ setLabels: { app: 'closed' } });
  assert.deepEqual(beforeScore(policy, pod, nodes), { pod: moved, nodes: changed });
  assert.deepEqual(beforeScore(policy, new TestPod('shop'), nodes), { pod: undefined, nodes: changed });
});

test('args are checked', () => {
  const wrong = (args: object, expected: string): void => {
    assert.throws(() => withArgs(reference, args), { message: expected });
  };
  wrong({}, 'args: missing field `zone`');
  wrong({ zone: 7 }, 'args.zone: invalid type: integer `7`, expected a string');
  wrong({ zone: 'a', most: 0 }, 'args.most: invalid value: integer `0`, expected an integer, 1 to 1000');
  wrong({ zone: 'a', most: 1.5 }, 'args.most: invalid type: number `1.5`, expected an integer, 1 to 1000');
  wrong({ zone: 'a', more: 1 }, 'args.more: unknown field `more`, expected `zone` or `most`');
  assert.equal(info(withArgs(reference, { zone: 'a' })).revision, 'reference-1');
});
