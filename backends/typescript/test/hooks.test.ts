/** Hooks, over sockets. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ChangeRequest, type ChangeResponse } from '../src/gen/extender/policy/v1beta1/hooks.js';
import { Effects, Verb as VerbNumber } from '../src/gen/extender/policy/v1beta1/info.js';
import { Miss } from '../src/gen/extender/policy/v1beta1/policy.js';
import {
  Hook,
  Info,
  type Node,
  NodeChange,
  type Pod,
  PodChange,
  Policy,
  Reads,
  type ScoreChanges,
  Verb,
  Verdict,
} from '../src/index.js';
import { ask, call, failure, getInfo, inline, named, row, served, type Served } from './support.js';

type Given<T extends { fromPartial(given: never): unknown }> = Parameters<T['fromPartial']>[0];

type Asked = Given<typeof ChangeRequest>;

function change({ hooks }: Served, given: Asked): Promise<ChangeResponse> {
  return ask<ChangeRequest, ChangeResponse>(
    hooks,
    hooks.change.bind(hooks),
    ChangeRequest.fromPartial(given),
  );
}

function beforeFilter(backend: Served, given: Asked): Promise<ChangeResponse> {
  return change(backend, { ...given, hook: VerbNumber.BEFORE_FILTER });
}

function beforeFilterNodes(backend: Served, given: Asked): Promise<ChangeResponse> {
  return change(backend, { ...given, hook: VerbNumber.BEFORE_FILTER_NODES });
}

function beforeScore(backend: Served, given: Asked): Promise<ChangeResponse> {
  return change(backend, { ...given, hook: VerbNumber.BEFORE_SCORE });
}

const everything = new Info('hooked', '1')
  .revision('r')
  .beforeFilter(Hook.changes('podLabels', 'podRequests').reads(Reads.everything()))
  .beforeFilterNodes(Hook.changes('nodeLabels', 'nodeTaints').reads(Reads.everything()))
  .beforeScore(Hook.changes('podLabels', 'nodeLabels', 'nodeUsage').reads(Reads.everything()));

/** What is declared for the first hook. */
const ofPods = Reads.everything().withoutNodes();

const ONE = new NodeChange({ setLabels: { a: '1', b: '2' }, reason: 'one' });

/** Does what the label `do` of the pod or of a node says. */
class Hooked extends Policy {
  constructor(private readonly declared = everything) {
    super();
  }

  override info(): Info {
    return this.declared;
  }

  override filter(): Verdict {
    return Verdict.accept;
  }

  override beforeFilter(pod: Pod): PodChange | undefined {
    switch (pod.label('do')) {
      case 'promise':
        return Promise.resolve(undefined) as unknown as PodChange;
      case 'change':
        return new PodChange({
          setLabels: { tier: 'gold' },
          addRequests: { milliCpu: -100 },
          reason: 'tiers',
        });
      case 'nothing':
        return new PodChange({ addRequests: { memory: 0 }, reason: 'nothing' });
      default:
        return undefined;
    }
  }

  override beforeFilterNode(_pod: Pod, node: Node): NodeChange | undefined {
    switch (node.label('do')) {
      case 'one':
        return ONE;
      case 'same':
        return new NodeChange({
          setLabels: new Map([
            ['b', '2'],
            ['a', '1'],
          ]),
          reason: 'one',
        });
      case 'other':
        return new NodeChange({ addTaints: [{ key: 'k', effect: 'NoSchedule' }] });
      case 'nothing':
        return new NodeChange({ reason: 'nothing' });
      case 'plain':
        return { setLabels: {} } as unknown as NodeChange;
      default:
        return undefined;
    }
  }

  override beforeScore(pod: Pod, nodes: readonly Node[]): ScoreChanges {
    switch (pod.label('do')) {
      case 'change':
        return {
          pod: new PodChange({ removeLabels: ['app'] }),
          nodes: nodes.map((_, at) =>
            at === 1 ? new NodeChange({ addUsage: { nonzero: { memory: -1 } } }) : undefined,
          ),
        };
      case 'few':
        return { nodes: [] };
      case 'promise':
        return Promise.resolve({}) as unknown as ScoreChanges;
      case 'misspelled':
        return { node: [] } as ScoreChanges;
      default:
        return {};
    }
  }
}

function podOf(what: string): NonNullable<Asked['pod']> {
  const entries = new Map(what === '' ? [] : [['do', what]]);
  return { facts: { namespace: 'shop', labels: { entries } } };
}

function doing(...what: string[]): ReturnType<typeof inline> {
  return inline(what.map((text, at) => row(`n${String(at)}`, text === '' ? {} : { do: text })));
}

const pod = podOf('');
const evaluated = (count: number): object => ({
  outcome: { $case: 'evaluated', value: count },
  revision: 'r',
});

test('the handshake lists the service, and each hook with what it changes', async () => {
  const reads = new Reads();
  reads.podLabel('app');
  const declared = new Info('hooked', '1')
    .beforeScore(Hook.changes('nodeUsage', 'podTolerations'))
    .beforeFilterNodes(Hook.changes('nodeTaints').wholeSet().reads(new Reads().node('usage', 'rawJson')))
    .beforeFilter(Hook.changes('podRequests', 'podLabels', 'podRequests').pure().reads(reads))
    .filters(Verb.perNode())
    .shows('/a', '', () => 1);
  const { services, verbs } = await getInfo(await served(new Hooked(declared)));
  assert.deepEqual(
    services.map((name) => name.replace('extender.policy.v1beta1.', '')),
    ['NodeTableService', 'IntrospectionService', 'HookService', 'WatchService'],
  );
  assert.deepEqual(
    verbs.map(({ verb, scope, effects, reads, changes }) => ({
      verb,
      scope,
      effects,
      nodeParts: reads?.node?.parts,
      changes,
    })),
    [
      { verb: 1, scope: 1, effects: Effects.READS_OUTSIDE, nodeParts: undefined, changes: [] },
      { verb: 5, scope: 1, effects: Effects.PURE, nodeParts: undefined, changes: [1, 5] },
      { verb: 6, scope: 2, effects: Effects.READS_OUTSIDE, nodeParts: [7, 8], changes: [7] },
      { verb: 7, scope: 1, effects: Effects.READS_OUTSIDE, nodeParts: undefined, changes: [4, 9] },
    ],
  );
  assert.deepEqual(verbs[1]?.reads, {
    pod: {
      parts: [],
      labels: { keys: ['app'], prefixes: [] },
      annotations: undefined,
      topologyCounts: [],
      everything: false,
    },
    node: undefined,
  });
});

test('a policy of hooks alone about the pod needs no table of nodes', async () => {
  const hook = Hook.changes('podLabels').reads(Reads.everything());
  const info = await getInfo(await served(new Hooked(new Info('p', '1').beforeFilter(hook))));
  assert.deepEqual(info.services, [
    'extender.policy.v1beta1.HookService',
    'extender.policy.v1beta1.WatchService',
  ]);
  // There are no nodes of which everything could be read.
  const [{ reads } = {}] = info.verbs;
  assert.deepEqual([reads?.pod?.everything, reads?.node], [true, undefined]);
});

test('the pod is changed before filter', async () => {
  const backend = await served(new Hooked());
  const none = await beforeFilter(backend, { call: call(ofPods), pod });
  assert.deepEqual([none.result, none.pod], [evaluated(1), undefined]);
  const { result, pod: change } = await beforeFilter(backend, { call: call(ofPods), pod: podOf('change') });
  assert.deepEqual(result, evaluated(1));
  assert.deepEqual(change, {
    setLabels: new Map([['tier', 'gold']]),
    removeLabels: [],
    setAnnotations: new Map(),
    removeAnnotations: [],
    setNodeSelector: new Map(),
    removeNodeSelector: [],
    nodeAffinity: undefined,
    removeNodeAffinity: false,
    podAffinity: undefined,
    topologySpread: undefined,
    addTolerations: [],
    removeTolerations: [],
    addRequests: { milliCpu: -100n, memory: 0n, ephemeralStorage: 0n, pods: 0n, others: new Map() },
    reason: 'tiers',
  });
  assert.equal((await beforeFilter(backend, { call: call(ofPods), pod: podOf('nothing') })).pod, undefined);
});

test('nodes that change alike are one change with their positions', async () => {
  const backend = await served(new Hooked());
  const nodes = doing('', 'one', 'other', 'same', 'nothing', 'other', 'one');
  const answer = await beforeFilterNodes(backend, { call: call(), pod, nodes });
  assert.deepEqual(answer.result, evaluated(7));
  const none = {
    addAllocatable: undefined,
    addUsage: undefined,
    removeLabels: [],
    removeTaints: [],
    holds: [],
  };
  assert.deepEqual(answer.nodes, [
    {
      ...none,
      positions: [1, 3, 6],
      setLabels: new Map([
        ['a', '1'],
        ['b', '2'],
      ]),
      addTaints: [],
      reason: 'one',
    },
    {
      ...none,
      positions: [2, 5],
      setLabels: new Map(),
      addTaints: [{ key: 'k', value: '', effect: 'NoSchedule' }],
      reason: '',
    },
  ]);
});

test('a hook can see all nodes at once', async () => {
  class Last extends Hooked {
    override beforeFilterNodes(_pod: Pod, nodes: readonly Node[]): (NodeChange | undefined)[] {
      return nodes.map((_, at) => (at === nodes.length - 1 ? ONE : undefined));
    }
  }
  const declared = new Info('last', '1').beforeFilterNodes(
    Hook.changes('nodeLabels').wholeSet().reads(Reads.everything()),
  );
  const answer = await beforeFilterNodes(await served(new Last(declared)), {
    call: call(),
    pod,
    nodes: doing('', ''),
  });
  assert.deepEqual(
    answer.nodes.map(({ positions }) => positions),
    [[1]],
  );
});

test('pod and nodes are changed before score', async () => {
  const backend = await served(new Hooked());
  const nodes = doing('', '', '');
  const none = await beforeScore(backend, { call: call(), pod, nodes });
  assert.deepEqual(none, { result: evaluated(3), pod: undefined, nodes: [] });
  const answer = await beforeScore(backend, { call: call(), pod: podOf('change'), nodes });
  assert.deepEqual([answer.result, answer.pod?.removeLabels], [evaluated(3), ['app']]);
  assert.deepEqual(
    answer.nodes.map(({ positions, addUsage }) => [positions, addUsage]),
    [[[1], { requested: undefined, nonzero: { milliCpu: 0n, memory: -1n } }]],
  );
});

test('what is read must be declared, and be what the call was made for', async () => {
  const reads = new Reads();
  reads.podLabel('app');
  const hook = Hook.changes('nodeLabels').reads(reads);
  const declared = new Info('p', '1')
    .beforeFilter(Hook.changes('podLabels').pure().reads(reads))
    .beforeFilterNodes(hook)
    .beforeScore(hook);
  const backend = await served(new Hooked(declared));
  const nodes = inline([{ ...row('a'), name: 'a', facts: undefined }]);
  const request = (of: Reads, facts: object, asked: unknown): Asked => ({
    call: call(of),
    pod: { facts },
    ...(asked === beforeFilter ? {} : { nodes }),
  });
  const values = { labels: { values: ['x'] } };
  for (const asked of [beforeFilter, beforeScore]) {
    assert.equal(
      await failure(asked(backend, request(reads, values, asked))),
      `INTERNAL: ${asked.name} failed: label "do" of the pod is read and not declared; declare it with Reads.podLabel`,
    );
  }
  assert.match(
    await failure(beforeFilterNodes(backend, request(reads, values, beforeFilterNodes))),
    /^INTERNAL: beforeFilterNodes failed: label "do" of the node is read and not declared/,
  );
  for (const asked of [beforeFilter, beforeFilterNodes, beforeScore]) {
    assert.match(
      await failure(asked(backend, request(new Reads(), values, asked))),
      /^FAILED_PRECONDITION: call\.reads is not the SHA-256 of what this policy now declares to read/,
    );
    assert.equal(
      await failure(asked(backend, request(reads, {}, asked))),
      'INVALID_ARGUMENT: pod.facts.labels.values has 0 values, and 1 keys are declared',
    );
  }
});

test('a request names one of the hooks that are declared, and has nodes if that one has', async () => {
  const backend = await served(new Hooked());
  const asked = (hook: number, nodes?: Asked['nodes'], args = ''): Promise<string> =>
    failure(
      change(backend, {
        call: call(hook === VerbNumber.BEFORE_FILTER ? ofPods : Reads.everything(), args),
        pod,
        hook: hook as VerbNumber,
        ...(nodes === undefined ? {} : { nodes }),
      }),
    );
  assert.equal(await asked(0), 'INVALID_ARGUMENT: hook is missing; every request has it');
  for (const hook of [VerbNumber.FILTER, 99]) {
    assert.match(await asked(hook, doing('')), new RegExp(`^INVALID_ARGUMENT: hook is ${String(hook)}, `));
  }
  // The reason with the smallest number counts.
  assert.match(await asked(0, undefined, '{"a":1}'), /^INVALID_ARGUMENT: this policy takes no args/);
  assert.equal(
    await asked(VerbNumber.BEFORE_FILTER, doing('')),
    'INVALID_ARGUMENT: nodes is set; a request with VERB_BEFORE_FILTER has none',
  );
  for (const hook of [VerbNumber.BEFORE_FILTER_NODES, VerbNumber.BEFORE_SCORE]) {
    assert.equal(await asked(hook), 'INVALID_ARGUMENT: nodes is missing; every request has it');
  }
  const one = await served(new Hooked(new Info('p', '1').beforeScore(Hook.changes('podLabels'))));
  assert.equal(
    await failure(beforeFilter(one, { call: call(), pod })),
    'UNIMPLEMENTED: this policy does not serve BeforeFilter; its GetInfo does not list it',
  );
});

test('a miss changes nothing', async () => {
  const backend = await served(new Hooked());
  assert.deepEqual(await beforeFilterNodes(backend, { call: call(), pod, nodes: named('t', 1n, [1]) }), {
    result: { outcome: { $case: 'miss', value: Miss.TABLE_UNKNOWN }, revision: '' },
    pod: undefined,
    nodes: [],
  });
});

test('what a policy returns is checked, and a mistake is logged once', async () => {
  const backend = await served(new Hooked());
  const cases: [Promise<unknown>, string][] = [
    [
      beforeFilter(backend, { call: call(ofPods), pod: podOf('promise') }),
      'beforeFilter returned no PodChange; expected one or undefined, and not a promise',
    ],
    [
      beforeFilterNodes(backend, { call: call(), pod, nodes: doing('', '', 'plain') }),
      'beforeFilterNodes returned no NodeChange for position 2; expected one or undefined',
    ],
    [
      beforeScore(backend, { call: call(), pod: podOf('few'), nodes: doing('', '') }),
      'beforeScore returned 0 answers for 2 nodes; expected one per node',
    ],
    [
      beforeScore(backend, { call: call(), pod: podOf('promise'), nodes: doing('') }),
      'beforeScore returned no changes; expected an object with pod, nodes, both or neither, and not a promise',
    ],
    [
      beforeScore(backend, { call: call(), pod: podOf('misspelled'), nodes: doing('') }),
      'beforeScore returned no changes; expected an object with pod, nodes, both or neither, and not a promise',
    ],
  ];
  for (const [answer, expected] of cases) {
    assert.equal(await failure(answer), `INTERNAL: ${expected}`);
    assert.ok(backend.log.includes(`${expected}; this is logged once, correct the policy`), expected);
  }
  assert.equal(backend.log.length, cases.length - 1);
});
