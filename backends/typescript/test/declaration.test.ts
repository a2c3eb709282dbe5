import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { Declaration, Terms } from '../src/declaration.js';
import { programDigest } from '../src/declaration/program.js';
import { Backend, Bind, Hook, Info, Policy, PodsBy, Reads, Scale, Verb } from '../src/index.js';
import {
  Effects,
  GetInfoResponse,
  NodePart,
  NodeReads,
  PodCountBy,
  PodPart,
  VerbInfo,
} from '../src/gen/extender/policy/v1beta1/info.js';

const pure = new Info('p', '1').filters(Verb.perNode().pure());

function mistakes(info: Info): string {
  try {
    new Declaration(info);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return '';
}

test('what no gateway can reject is named', () => {
  const shows = 3 as unknown as () => unknown;
  assert.equal(
    mistakes(new Info('p', '1').shows('/a', 'a', shows)),
    'invalid policy info: no verb is declared; call Info.filters, Info.scores, Info.preempts, Info.binds, or a hook such as Info.beforeFilter; the path "/a" has no function; give Info.shows one that returns what it shows',
  );
});

test('a verb is not pure with side effects', () => {
  const both = Verb.perNode().pure().sideEffects();
  assert.equal(
    mistakes(
      new Info('p', '1').filters(both).preempts(Verb.perNode().pure()).scores(both, Scale.unbounded()),
    ),
    'invalid policy info: Filter is declared with pure() and sideEffects(); only one of them can be true; Score is declared with pure() and sideEffects(); only one of them can be true',
  );
});

test('the bounds of a scale are integers of 32 bits', () => {
  const scored = (min: number, max: number): string =>
    mistakes(new Info('p', '1').scores(Verb.perNode(), Scale.between(min, max)));
  assert.equal(scored(-(2 ** 31), 2 ** 31 - 1), '');
  assert.equal(
    scored(0, 2 ** 40),
    'invalid policy info: the scale is 0 to 1099511627776; expected integers from -2147483648 to 2147483647',
  );
  assert.match(scored(0.5, 1), /the scale is 0\.5 to 1/u);
  assert.match(scored(0, NaN), /the scale is 0 to NaN/u);
  assert.equal(
    scored(10, 0),
    'invalid policy info: Scale.between(10, 0): the least score is larger than the largest',
  );
});

const watch = 'extender.policy.v1beta1.WatchService';

function handshake(info: Info): GetInfoResponse {
  return new Declaration(info).response;
}

test('what is read of nodes where there are none is for the gateway to reject, unless it is everything', () => {
  const sent = (reads: Reads): unknown[] => {
    const info = new Info('p', '1').binds(reads).beforeFilter(Hook.changes('podLabels').reads(reads));
    const { verbs, services } = handshake(info);
    assert.deepEqual(services, ['extender.policy.v1beta1.HookService', watch]);
    return verbs.map(({ reads: of }) => of?.node);
  };
  assert.deepEqual(sent(new Reads()), [undefined, undefined]);
  const shared = Reads.everything().node('usage');
  shared.podsBy(PodsBy.owner);
  assert.deepEqual(sent(shared), [undefined, undefined]);
  const name = NodeReads.fromPartial({ parts: [NodePart.NAME] });
  assert.deepEqual(sent(new Reads().node('name')), [name, name]);
});

test('of two equal paths the first is shown', () => {
  const info = pure.shows('/a', 'first', () => 1).shows('/a', 'second', () => 2);
  assert.equal(new Declaration(info).shown.get('/a')?.description, 'first');
});

test('a declaration is named by the digest of what the handshake sends of it, and no two the same', () => {
  const digest = (reads: Reads): string =>
    new Terms('Filter', { verb: Verb.perNode().reads(reads), changes: [] }).reads.toString('hex');
  const reads = new Reads().node('taints', 'name').pod('requests');
  reads.nodeLabel('zone');
  const declaration = new Declaration(new Info('p', '1').filters(Verb.perNode().reads(reads)));
  const [filter] = declaration.response.verbs;
  const sent = VerbInfo.encode(VerbInfo.fromPartial({ reads: filter?.reads ?? {} })).finish();
  // After the key and the length.
  assert.equal(digest(reads), createHash('sha256').update(sent.subarray(2)).digest('hex'));
  assert.equal(digest(new Reads()), createHash('sha256').digest('hex'));
  const digests = new Set([digest(reads)]);
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
    (of) => of.node('usage'),
    (of) => of.pod('rawJson'),
  ];
  for (const declare of others) {
    const other = new Reads();
    declare(other);
    assert.ok(!digests.has(digest(other)));
    digests.add(digest(other));
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
    everything: false,
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

test('a verb that reads nothing but names of nodes needs no table', () => {
  const services = (reads: Reads): string[] =>
    handshake(new Info('p', '1').filters(Verb.perNode().reads(reads))).services;
  const table = ['extender.policy.v1beta1.NodeTableService', watch];
  assert.deepEqual(services(new Reads().pod('requests')), [watch]);
  assert.deepEqual(services(new Reads().node('name')), [watch]);
  assert.deepEqual(services(new Reads().node('name', 'usage')), table);
  assert.deepEqual(services(Reads.everything()), table);
  const counts = new Reads();
  counts.podsBy(PodsBy.namespace);
  assert.deepEqual(services(counts), table);
  const annotations = new Reads();
  annotations.nodeAnnotations('a/');
  assert.deepEqual(services(annotations), table);
  const without = new Info('p', '1').filters(Verb.perNode().reads(Reads.everything())).withoutNodeTable();
  assert.deepEqual(handshake(without).services, [watch]);
});

test('everything is one word, beside which the rest is declared', () => {
  const reads = Reads.everything()
    .node('name', 'taints', 'usage', 'rawJson')
    .pod('requests', 'rawJson', 'identity');
  reads.nodeLabel('zone');
  reads.podLabels('acme.io/');
  reads.nodeAnnotation('note');
  reads.podsBy(PodsBy.label('app'));
  const [filter] = handshake(new Info('p', '1').filters(Verb.perNode().reads(reads))).verbs;
  assert.deepEqual(filter?.reads, {
    pod: {
      parts: [PodPart.IDENTITY, PodPart.RAW_JSON],
      labels: undefined,
      annotations: undefined,
      topologyCounts: [],
      everything: true,
    },
    node: {
      parts: [NodePart.USAGE, NodePart.RAW_JSON],
      labels: undefined,
      annotations: { keys: ['note'], prefixes: [] },
      podCounts: [{ by: PodCountBy.LABEL, label: 'app', requests: false }],
      everything: true,
    },
  });
});

test('the handshake can be encoded, with everything that can be declared', () => {
  const reads = Reads.everything().node('usage');
  const info = new Info('p', '1')
    .filters(Verb.wholeSet().sideEffects().reads(reads))
    .scores(Verb.perNode(), Scale.between(-5, 5).normalize('range').reversed())
    .preempts(Verb.perNode())
    .binds();
  const response = handshake(info);
  assert.deepEqual(GetInfoResponse.decode(GetInfoResponse.encode(response).finish()), response);
  const [filter, score, preempt, bind] = response.verbs;
  assert.deepEqual([filter?.effects, filter?.scope], [Effects.CHANGES_OUTSIDE, 2]);
  assert.equal(score?.effects, Effects.READS_OUTSIDE);
  assert.deepEqual([score.scoreMin, score.scoreMax, score.normalization, score.reversed], [-5, 5, 2, true]);
  // Nothing is declared, too.
  const nothing = { pod: undefined, node: undefined };
  assert.deepEqual([score.reads, preempt?.reads, bind?.reads], [nothing, nothing, nothing]);
  assert.deepEqual(bind, VerbInfo.fromPartial({ verb: 4, reads: {} }));
});

test('what is declared has a method', () => {
  class Nothing extends Policy {
    constructor(private readonly declared: Info) {
      super();
    }

    override info(): Info {
      return this.declared;
    }
  }
  const verb = Verb.perNode();
  const hook = Hook.changes('podLabels');
  const of = new Info('p', '1');
  const cases: [Info, string, string][] = [
    [of.filters(verb), 'filters', 'filter(pod, node) or filterAll(pod, nodes)'],
    [of.scores(verb, Scale.unbounded()), 'scores', 'score(pod, node) or scoreAll(pod, nodes)'],
    [of.preempts(verb), 'preempts', 'preempt(pod, candidate) or preemptAll(pod, candidates)'],
    [of.binds(), 'binds', 'bind(ask)'],
    [of.beforeFilter(hook), 'beforeFilter', 'beforeFilter(pod)'],
    [
      of.beforeFilterNodes(hook),
      'beforeFilterNodes',
      'beforeFilterNode(pod, node) or beforeFilterNodes(pod, nodes)',
    ],
    [of.beforeScore(hook), 'beforeScore', 'beforeScore(pod, nodes)'],
  ];
  for (const [info, declared, methods] of cases) {
    assert.throws(() => Backend.of(new Nothing(info)), {
      message: `invalid policy info: Nothing declares Info.${declared} and has no method for it; write ${methods}, or remove the declaration`,
    });
    for (const method of methods.split(' or ')) {
      Backend.of(Object.assign(new Nothing(info), { [method.replace(/\(.*/, '')]: () => undefined }));
    }
  }
});

test('the revision of a policy that names none is that of the program', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'revision-'));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const program = (name: string, rules: string): string => {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'rules.js'), rules);
    writeFileSync(join(folder, name, 'main.js'), '');
    return programDigest(join(folder, name, 'main.js'));
  };
  const digest = program('one', '1');
  assert.match(digest, /^[0-9a-f]{12}$/);
  assert.equal(program('replica', '1'), digest);
  assert.notEqual(program('edited', '2'), digest);
  assert.deepEqual([programDigest(join(folder, 'none.js')), programDigest(undefined)], ['', '']);
  assert.match(new Declaration(pure).response.revision, /^1\+[0-9a-f]{12}$/);
  const long = new Declaration(new Info('p', 'v'.repeat(64)).filters(Verb.perNode()));
  assert.equal(long.response.revision.length, 64);
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
