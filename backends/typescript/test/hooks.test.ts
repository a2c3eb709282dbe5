/** Hooks, over sockets. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  BeforeFilterNodesRequest,
  type BeforeFilterNodesResponse,
  BeforeFilterRequest,
  type BeforeFilterResponse,
  BeforeScoreRequest,
  type BeforeScoreResponse,
} from '../src/gen/extender/policy/v1alpha1/hooks.js';
import { NodeView } from '../src/gen/extender/policy/v1alpha1/info.js';
import { Miss } from '../src/gen/extender/policy/v1alpha1/policy.js';
import {
  Hook,
  Info,
  type Node,
  NodeChange,
  NotReady,
  type Pod,
  PodChange,
  Policy,
  Reads,
  type ScoreChanges,
  Verb,
} from '../src/index.js';
import { ask, call, failure, getInfo, inline, named, row, served, Sync, type Served } from './support.js';

type Given<T extends { fromPartial(given: never): unknown }> = Parameters<T['fromPartial']>[0];

function beforeFilter(
  { hooks }: Served,
  given: Given<typeof BeforeFilterRequest>,
): Promise<BeforeFilterResponse> {
  const request = BeforeFilterRequest.fromPartial(given);
  return ask<BeforeFilterRequest, BeforeFilterResponse>(hooks, hooks.beforeFilter.bind(hooks), request);
}

function beforeFilterNodes(
  { hooks }: Served,
  given: Given<typeof BeforeFilterNodesRequest>,
): Promise<BeforeFilterNodesResponse> {
  return ask<BeforeFilterNodesRequest, BeforeFilterNodesResponse>(
    hooks,
    hooks.beforeFilterNodes.bind(hooks),
    BeforeFilterNodesRequest.fromPartial(given),
  );
}

function beforeScore(
  { hooks }: Served,
  given: Given<typeof BeforeScoreRequest>,
): Promise<BeforeScoreResponse> {
  const request = BeforeScoreRequest.fromPartial(given);
  return ask<BeforeScoreRequest, BeforeScoreResponse>(hooks, hooks.beforeScore.bind(hooks), request);
}

const everything = new Info('hooked', '1')
  .revision('r')
  .beforeFilter(Hook.changes('podLabels', 'podRequests'))
  .beforeFilterNodes(Hook.changes('nodeLabels', 'nodeTaints'))
  .beforeScore(Hook.changes('podLabels', 'nodeLabels', 'nodeUsage'));

const ONE = new NodeChange({ setLabels: { a: '1', b: '2' }, reason: 'one' });

/** Does what the label `do` of the pod or of a node says. */
class Hooked extends Policy {
  constructor(private readonly declared = everything) {
    super();
  }

  override info(): Info {
    return this.declared;
  }

  override beforeFilter(pod: Pod): PodChange | undefined {
    switch (pod.label('do')) {
      case 'throw':
        throw new Error('as asked');
      case 'not ready':
        throw new NotReady('prices are a day old');
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

function podOf(what: string): { facts: { namespace: string; labels: Map<string, string> } } {
  return { facts: { namespace: 'shop', labels: new Map(what === '' ? [] : [['do', what]]) } };
}

function doing(...what: string[]): ReturnType<typeof inline> {
  return inline(what.map((text, at) => row(`n${String(at)}`, text === '' ? {} : { do: text })));
}

const pod = podOf('');
const evaluated = (count: number): object => ({ evaluated: count, miss: Miss.UNSPECIFIED, revision: 'r' });

test('the handshake lists the service, and each hook with what it changes', async () => {
  const reads = new Reads();
  reads.podLabel('app');
  const declared = new Info('hooked', '1')
    .filters(Verb.perNode())
    .beforeFilter(Hook.changes('podRequests', 'podLabels', 'podRequests').pure().reads(reads))
    .beforeFilterNodes(Hook.changes('nodeTaints').wholeSet().usage().view('factsAndRaw'))
    .beforeScore(Hook.changes('nodeUsage', 'podTolerations').view('name'))
    .shows('/a', '', () => 1);
  const { services, verbs } = await getInfo(await served(new Hooked(declared)));
  assert.deepEqual(
    services.map((name) => name.replace('extender.policy.v1alpha1.', '')),
    ['NodeTableService', 'IntrospectionService', 'HookService'],
  );
  assert.deepEqual(
    verbs.map(({ verb, nodeView, scope, pure, usage, sideEffects, changes }) => ({
      verb,
      nodeView,
      scope,
      flags: [pure, usage, sideEffects],
      changes,
    })),
    [
      { verb: 1, nodeView: 2, scope: 1, flags: [false, false, false], changes: [] },
      { verb: 5, nodeView: 0, scope: 1, flags: [true, false, false], changes: [1, 5] },
      { verb: 6, nodeView: 3, scope: 2, flags: [false, true, false], changes: [7] },
      { verb: 7, nodeView: 1, scope: 1, flags: [false, false, false], changes: [4, 9] },
    ],
  );
  assert.deepEqual(verbs[1]?.reads, {
    id: reads.id,
    pod: { parts: [], labels: { keys: ['app'], prefixes: [] }, annotations: undefined, topologyCounts: [] },
    node: undefined,
  });
});

test('a policy of hooks alone about the pod needs no table of nodes', async () => {
  const info = await getInfo(
    await served(new Hooked(new Info('p', '1').beforeFilter(Hook.changes('podLabels')))),
  );
  assert.deepEqual(info.services, ['extender.policy.v1alpha1.HookService']);
});

test('the pod is changed before filter', async () => {
  const backend = await served(new Hooked());
  const none = await beforeFilter(backend, { call: call(), pod });
  assert.deepEqual([none.result, none.pod], [evaluated(1), undefined]);
  const { result, pod: change } = await beforeFilter(backend, { call: call(), pod: podOf('change') });
  assert.deepEqual(result, evaluated(1));
  assert.deepEqual(change, {
    setLabels: new Map([['tier', 'gold']]),
    removeLabels: [],
    setNodeSelector: new Map(),
    removeNodeSelector: [],
    nodeAffinity: undefined,
    removeNodeAffinity: false,
    addTolerations: [],
    removeTolerations: [],
    addRequests: { milliCpu: -100n, memory: 0n, ephemeralStorage: 0n, pods: 0n, others: new Map() },
    reason: 'tiers',
  });
  assert.equal((await beforeFilter(backend, { call: call(), pod: podOf('nothing') })).pod, undefined);
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
  const declared = new Info('last', '1').beforeFilterNodes(Hook.changes('nodeLabels').wholeSet());
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

/** A request that is already encoded. */
function encoded({ hooks }: Served, request: Buffer): Promise<unknown> {
  const path = '/extender.policy.v1alpha1.HookService/BeforeFilter';
  return new Promise((resolve, reject) => {
    const plain = (bytes: Buffer): Buffer => bytes;
    hooks.makeUnaryRequest(path, plain, plain, request, (error, answer) => {
      if (error === null) {
        resolve(answer);
      } else {
        reject(error);
      }
    });
  });
}

test('a request that cannot be decoded, or would take much more memory than its bytes, is refused', async () => {
  const malformed = Buffer.from([0x12, 0x02, 0xff, 0xff]);
  assert.match(
    await failure(encoded(await served(new Hooked()), malformed)),
    /^INVALID_ARGUMENT: the message cannot be decoded: /,
  );
  // Volumes without a name.
  const volumes = Array.from({ length: 3_000_000 }, () => ({ name: '', claim: '' }));
  const large = Buffer.from(
    BeforeFilterRequest.encode(
      BeforeFilterRequest.fromPartial({ call: call(), pod: { facts: { volumes } } }),
    ).finish(),
  );
  assert.match(
    await failure(encoded(await served(new Hooked()), large)),
    /^RESOURCE_EXHAUSTED: the message has \d+ bytes and would take more than \d+ decoded/,
  );
  const none = await served(new Hooked(new Info('p', '1').filters(Verb.perNode())));
  assert.match(await failure(encoded(none, malformed)), /^UNIMPLEMENTED: /);
});

test('nodes that cannot be read are a miss, and those of a table are found', async () => {
  const backend = await served(new Hooked());
  const missed = async (nodes: Given<typeof BeforeScoreRequest>['nodes']): Promise<unknown[]> => {
    const request = { call: call(), pod: podOf('change'), ...(nodes && { nodes }) };
    const [filtered, scored] = [
      await beforeFilterNodes(backend, request),
      await beforeScore(backend, request),
    ];
    assert.deepEqual([filtered.nodes, scored.nodes, scored.pod], [[], [], undefined]);
    assert.deepEqual([filtered.result?.evaluated, scored.result?.evaluated], [0, 0]);
    return [filtered.result?.miss, scored.result?.miss];
  };
  assert.deepEqual(await missed({ count: 3 }), [Miss.FORM_UNKNOWN, Miss.FORM_UNKNOWN]);
  assert.deepEqual(await missed(named(5n, 1n, [1])), [Miss.TABLE_UNKNOWN, Miss.TABLE_UNKNOWN]);
  const sync = new Sync(backend);
  const upserts = [{ id: 1, row: row('a', { do: 'one' }) }];
  await sync.send({ table: 5n, version: 1n, view: { nodeView: NodeView.FACTS }, upserts, complete: true });
  assert.deepEqual(await missed(named(5n, 2n, [1])), [Miss.TABLE_BEHIND, Miss.TABLE_BEHIND]);
  const nodes = named(5n, 1n, [0, 1], [row('b')]);
  const answer = await beforeFilterNodes(backend, { call: call(), pod, nodes });
  assert.deepEqual([answer.result, answer.nodes[0]?.positions], [evaluated(2), [1]]);
  sync.finish();
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
  const request = (id: number, facts: object): Given<typeof BeforeScoreRequest> => ({
    call: call(id),
    pod: { facts },
    nodes,
  });
  const values = { labelValues: ['x'] };
  for (const asked of [beforeFilter, beforeScore]) {
    assert.equal(
      await failure(asked(backend, request(reads.id, values))),
      'INTERNAL: the policy failed: label "do" of the pod is read and not declared; declare it with Reads.podLabel',
    );
  }
  assert.match(
    await failure(beforeFilterNodes(backend, request(reads.id, values))),
    /^INTERNAL: the policy failed: label "do" of the node is read and not declared/,
  );
  for (const asked of [beforeFilter, beforeFilterNodes, beforeScore]) {
    assert.match(
      await failure(asked(backend, request(reads.id + 1, values))),
      /^FAILED_PRECONDITION: call\.reads is \d+, and this policy now declares reads with the id \d+/,
    );
    assert.equal(
      await failure(asked(backend, request(reads.id, {}))),
      'INVALID_ARGUMENT: pod.facts.label_values has 0 values, and 1 keys are declared',
    );
  }
});

test('a policy that is not ready, or fails, fails the call alone', async () => {
  const backend = await served(new Hooked());
  const asked = (what: string): Promise<string> =>
    failure(beforeFilter(backend, { call: call(), pod: podOf(what) }));
  assert.equal(await asked('not ready'), 'UNAVAILABLE: prices are a day old');
  assert.equal(backend.log.length, 0);
  assert.equal(await asked('throw'), "INTERNAL: the policy failed (Error); see the policy's log");
  assert.match(
    backend.log[0] ?? '',
    /the policy failed \(Error\); see the policy's log; .*\nError: as asked\n.*at Hooked\.beforeFilter/,
  );
  assert.equal(await asked('change'), 'OK');
  class Unready extends Hooked {
    override ready(): void {
      throw new NotReady('no data');
    }
  }
  const unready = await served(new Unready());
  const request = { call: call(), pod, nodes: doing('') };
  for (const hook of [beforeFilter, beforeFilterNodes, beforeScore]) {
    assert.equal(await failure(hook(unready, request)), 'UNAVAILABLE: no data');
  }
});

test('what a policy returns is checked, and a mistake is logged once', async () => {
  const backend = await served(new Hooked());
  const cases: [Promise<unknown>, string][] = [
    [
      beforeFilter(backend, { call: call(), pod: podOf('promise') }),
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
