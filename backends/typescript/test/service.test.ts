import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  args,
  Backend,
  CannotAnswer,
  Eviction,
  Info,
  NO_OPINION,
  NotReady,
  Policy,
  Reads,
  Scale,
  Verb,
  Verdict,
  type Node,
  type Pod,
} from '../src/index.js';
import {
  type Call,
  type FilterResponse,
  FilterRequest,
  Miss,
  type PolicyServiceClient,
  PreemptRequest,
  type PreemptResponse,
  Purpose,
  RejectionKind,
  ScoreRequest,
  type ScoreResponse,
} from '../src/gen/extender/policy/v1beta1/policy.js';
import { NodeRow } from '../src/gen/extender/policy/v1beta1/node.js';
import {
  ask,
  call,
  failure,
  getInfo,
  inline,
  named,
  readsAll,
  reason,
  row,
  served,
  sha256,
  Sync,
  type Served,
} from './support.js';

type Given<T extends { fromPartial(given: never): unknown }> = Parameters<T['fromPartial']>[0];

function filter({ policy }: Served, given: Given<typeof FilterRequest>): Promise<FilterResponse> {
  return ask<FilterRequest, FilterResponse>(
    policy,
    policy.filter.bind(policy),
    FilterRequest.fromPartial(given),
  );
}

function score({ policy }: Served, given: Given<typeof ScoreRequest>): Promise<ScoreResponse> {
  return ask<ScoreRequest, ScoreResponse>(policy, policy.score.bind(policy), ScoreRequest.fromPartial(given));
}

function preempt({ policy }: Served, given: Given<typeof PreemptRequest>): Promise<PreemptResponse> {
  return ask<PreemptRequest, PreemptResponse>(
    policy,
    policy.preempt.bind(policy),
    PreemptRequest.fromPartial(given),
  );
}

/** Does what the label `do` of a node says. */
class Obedient extends Policy {
  private isReady = true;

  constructor(private readonly declared: Info) {
    super();
  }

  override ready(): void {
    if (!this.isReady) {
      throw new NotReady('prices are a day old');
    }
  }

  override info(): Info {
    return this.declared;
  }

  override filter(_pod: Pod, node: Node): Verdict {
    const what = node.label('do') ?? '';
    switch (what) {
      case 'throw':
        throw new Error('as asked');
      case 'not ready':
        throw new NotReady('prices are a day old');
      case 'be last':
        this.isReady = false;
        return Verdict.accept;
      case 'unknown':
        throw new CannotAnswer('no such claim');
      case 'nothing':
        return undefined as unknown as Verdict;
      default:
        return what === '' ? Verdict.accept : Verdict.reject(what).byRule('do');
    }
  }

  override score(_pod: Pod, node: Node): number {
    return Number(node.label('score') ?? 0);
  }

  override preempt(): Eviction {
    return Eviction.all;
  }
}

const pod = { facts: { namespace: 'shop' } };
const everything = new Info('obedient', '1')
  .revision('1')
  .filters(readsAll)
  .scores(readsAll, Scale.unbounded())
  .preempts(Verb.perNode());

test('errors of one code have different reasons', async () => {
  const info = new Info('p', '1').filters(readsAll.sideEffects());
  const backend = await served(new Obedient(info));
  const ask = (given: Given<typeof FilterRequest>): Promise<FilterResponse> =>
    filter(backend, { call: call(), pod, nodes: inline([row('a')]), ...given });
  const doing = (what: string): Promise<FilterResponse> => ask({ nodes: inline([row('a', { do: what })]) });
  const many = Array.from({ length: 2_000_000 }, () => 1);
  const cases: [Promise<unknown>, string][] = [
    [ask({ nodes: named('t', 1n, many) }), 'RESOURCE_EXHAUSTED ERROR_REASON_TOO_LARGE'],
    [
      ask({ call: { ...call(), argsSha256: sha256('{"a":1}') } }),
      'FAILED_PRECONDITION ERROR_REASON_ARGS_UNKNOWN',
    ],
    [ask({ call: call(Reads.everything(), '{"a":1}') }), 'INVALID_ARGUMENT ERROR_REASON_INVALID_ARGS'],
    [ask({ call: call(new Reads()) }), 'FAILED_PRECONDITION ERROR_REASON_OTHER_READS'],
    [ask({ call: { ...call(), purpose: Purpose.REPLAY } }), 'FAILED_PRECONDITION ERROR_REASON_PURPOSE'],
    [ask({ call: undefined }), 'INVALID_ARGUMENT ERROR_REASON_INVALID_REQUEST'],
    [doing('not ready'), 'UNAVAILABLE ERROR_REASON_NOT_READY'],
    [doing('unknown'), 'ABORTED ERROR_REASON_CANNOT_ANSWER'],
    [doing('throw'), 'INTERNAL ERROR_REASON_POLICY_FAILED'],
    [score(backend, { call: call(), pod, nodes: inline([row('a')]) }), 'UNIMPLEMENTED'],
  ];
  const given = await Promise.all(cases.map(([answer]) => reason(answer)));
  assert.deepEqual(
    given,
    cases.map(([, expected]) => expected),
  );
  for (let table = 1; table <= 65; table += 1) {
    const filled = new Sync(backend).send({
      table: String(table),
      version: 1n,
      reads: { everything: true },
    });
    const expected = table <= 64 ? 'OK' : 'RESOURCE_EXHAUSTED ERROR_REASON_OVERLOADED';
    assert.equal(await reason(filled), expected);
  }
});

test('verdicts are grouped by reason and rule, with positions', async () => {
  const backend = await served(new Obedient(everything));
  const rows = ['', 'a', 'b', 'a', ''].map((what, at) =>
    row(`n${String(at)}`, what === '' ? {} : { do: what }),
  );
  const answer = await filter(backend, { call: call(), pod, nodes: inline(rows) });
  assert.deepEqual(answer.result, { outcome: { $case: 'evaluated', value: 5 }, revision: '1' });
  const group = (reason: string, positions: number[]): object => ({
    reason,
    kind: RejectionKind.UNSCHEDULABLE,
    positions,
    rule: 'do',
    retryAfterSeconds: undefined,
  });
  assert.deepEqual(answer.rejections, [group('a', [1, 3]), group('b', [2])]);
  assert.equal(answer.scores, undefined);
});

test('a rejection says whether evictions may help', async () => {
  class Both extends Obedient {
    override filter(_pod: Pod, node: Node): Verdict {
      const verdict = Verdict.reject('full');
      return node.label('do') === 'resolve' ? verdict : verdict.unresolvable();
    }
  }
  const backend = await served(new Both(everything));
  const rows = [row('a', { do: 'resolve' }), row('b'), row('c')];
  const { rejections } = await filter(backend, { call: call(), pod, nodes: inline(rows) });
  assert.deepEqual(
    rejections.map(({ kind, positions }) => [kind, positions]),
    [
      [RejectionKind.UNSCHEDULABLE, [0]],
      [RejectionKind.UNRESOLVABLE, [1, 2]],
    ],
  );
});

test('a rejection says when to try again, in whole seconds', async () => {
  const seconds = [0, 0.001, 60, -5, Infinity, 2 ** 40];
  class Later extends Obedient {
    override filter(_pod: Pod, node: Node): Verdict {
      return Verdict.reject('maintenance')
        .retryAfter(Number(node.label('after')))
        .byRule('m')
        .unresolvable();
    }
  }
  const backend = await served(new Later(everything));
  const asked = (after: readonly number[]): Promise<FilterResponse> => {
    const rows = after.map((of, at) => row(String(at), { after: String(of) }));
    return filter(backend, { call: call(), pod, nodes: inline(rows) });
  };
  const { rejections } = await asked(seconds);
  assert.deepEqual(
    rejections.map(({ retryAfterSeconds, positions }) => [retryAfterSeconds, positions]),
    [
      [0, [0, 3]],
      [1, [1]],
      [60, [2]],
      [2 ** 32 - 1, [4, 5]],
    ],
  );
  assert.equal(await failure(asked([NaN])), "INTERNAL: filter failed (RangeError); see the policy's log");
  assert.match(backend.log[0] ?? '', /RangeError: retryAfter got NaN; give it a number of seconds/);
});

test('a node without an opinion is absent from the scores', async () => {
  const backend = await served(new Obedient(everything));
  const rows = ['7', String(NO_OPINION), '0', String(NO_OPINION)].map((score, at) =>
    row(String(at), { score }),
  );
  const request = { call: call(), pod, nodes: inline(rows) };
  const expected = { values: [7, 0, 0, 0], absent: [1, 3] };
  assert.deepEqual((await score(backend, request)).scores, expected);
  assert.deepEqual((await filter(backend, { ...request, wantScores: true })).scores, expected);
});

test('a miss has nothing else, not even a revision', async () => {
  const backend = await served(new Obedient(everything));
  const result = { outcome: { $case: 'miss', value: Miss.TABLE_UNKNOWN }, revision: '' };
  const request = { call: call(), pod, nodes: named('t', 1n, [1]) };
  const filtered = await filter(backend, { ...request, wantScores: true });
  assert.deepEqual(filtered, { result, rejections: [], scores: undefined });
  assert.deepEqual(await score(backend, request), { result, scores: undefined });
  const placeholder = { ...request, call: call(new Reads()), candidates: [{ placeholder: true }] };
  assert.deepEqual(await preempt(backend, placeholder), {
    result,
    kept: [],
  });
});

test('scores come with the verdicts when they are wanted, also of rejected nodes', async () => {
  const backend = await served(new Obedient(everything));
  const rows = [row('a', { do: 'x', score: '-7' }), row('b', { score: '2147483647' })];
  const answer = await filter(backend, { call: call(), pod, nodes: inline(rows), wantScores: true });
  assert.deepEqual(answer.scores?.values, [-7, 2147483647]);
  const scored = await score(backend, { call: call(), pod, nodes: inline(rows) });
  assert.deepEqual(scored.scores?.values, [-7, 2147483647]);
});

test('scores that cannot be given leave the verdicts', async () => {
  const backend = await served(new Obedient(everything));
  const nodes = inline([row('a', { do: 'x', score: '2147483648' })]);
  const answer = await filter(backend, { call: call(), pod, nodes, wantScores: true });
  assert.deepEqual([answer.rejections.length, answer.scores], [1, undefined]);
  const last = await served(new Obedient(everything));
  const late = await filter(last, {
    call: call(),
    pod,
    nodes: inline([row('a', { do: 'be last' })]),
    wantScores: true,
  });
  assert.deepEqual([late.rejections.length, late.scores], [0, undefined]);
  assert.equal(
    await failure(score(backend, { call: call(), pod, nodes })),
    'INTERNAL: score returned 2147483648 for position 0; expected an integer of 32 bits',
  );
});

test('preempt has a candidate with victims for each node', async () => {
  const backend = await served(new Obedient(everything));
  // The verb reads nothing of nodes.
  const nodes = inline([NodeRow.create()]);
  const request = { call: call(new Reads()), pod, nodes };
  const kept = await preempt(backend, { ...request, candidates: [{ victims: [{ uid: 'u' }] }] });
  assert.deepEqual(kept.kept, [{ position: 0, victims: [0], addedUids: [], pdbViolations: undefined }]);
  const left = await preempt(backend, { ...request, candidates: [{ placeholder: true }] });
  assert.deepEqual(left.kept, [{ position: 0, victims: [], addedUids: [], pdbViolations: undefined }]);
  assert.equal(
    await failure(preempt(backend, { ...request, candidates: [] })),
    'INVALID_ARGUMENT: nodes.count is 1 and there are 0 candidates; each node has one',
  );
  assert.equal(
    await failure(preempt(backend, { ...request, candidates: [{ pdbViolations: 1 }] })),
    'INVALID_ARGUMENT: candidates[0] has no victims and is no placeholder; expected one of them',
  );
});

test('a verb that reads nothing of nodes gets empty rows, an answer for each', async () => {
  class Nothing extends Obedient {
    override filterAll(_pod: Pod, nodes: readonly Node[]): Verdict[] {
      return nodes.map((_, at) => (at === 1 ? Verdict.reject('second') : Verdict.accept));
    }
  }
  const backend = await served(new Nothing(new Info('p', '1').filters(Verb.perNode())));
  const nodes = inline([NodeRow.create(), NodeRow.create(), NodeRow.create()]);
  const answer = await filter(backend, { call: call(new Reads()), pod: { facts: {} }, nodes });
  assert.deepEqual(answer.result?.outcome, { $case: 'evaluated', value: 3 });
  assert.deepEqual(answer.rejections[0]?.positions, [1]);
});

test('a failure of the policy fails its call alone, and is logged once', async () => {
  const backend = await served(new Obedient(everything));
  const asked = (what: string): Promise<string> =>
    failure(filter(backend, { call: call(), pod, nodes: inline([row('a', { do: what })]) }));
  assert.equal(await asked('throw'), "INTERNAL: filter failed (Error); see the policy's log");
  assert.equal(await asked('throw'), "INTERNAL: filter failed (Error); see the policy's log");
  assert.equal(backend.log.length, 1);
  assert.match(
    backend.log[0] ?? '',
    /filter failed \(Error\); see the policy's log; this is logged once.*\nError: as asked\n.*at Obedient\.filter/,
  );
  assert.equal(await asked('not ready'), 'UNAVAILABLE: prices are a day old');
  assert.equal(await asked('unknown'), 'ABORTED: no such claim');
  assert.equal(
    await asked('nothing'),
    'INTERNAL: filter returned no Verdict for position 0; expected Verdict.accept or Verdict.reject',
  );
  assert.equal(await asked('x'), 'OK');
});

test('messages of a status have at most a kibibyte', async () => {
  class Long extends Obedient {
    override filter(): Verdict {
      throw new NotReady('ä'.repeat(70_000));
    }
  }
  const backend = await served(new Long(everything));
  const text = await failure(filter(backend, { call: call(), pod, nodes: inline([row('a')]) }));
  const bytes = Buffer.byteLength(text.replace('UNAVAILABLE: ', ''));
  assert.ok(bytes > 1_000 && bytes <= 1_024, String(bytes));
});

test('a wrong number of answers is a failure', async () => {
  class Wrong extends Obedient {
    override filterAll(): Verdict[] {
      return [];
    }

    override scoreAll(): number[] {
      return Promise.resolve([1]) as unknown as number[];
    }
  }
  const backend = await served(new Wrong(everything));
  const request = { call: call(), pod, nodes: inline([row('a')]) };
  assert.equal(
    await failure(filter(backend, request)),
    'INTERNAL: filterAll returned 0 answers for 1 nodes; expected one per node',
  );
  assert.equal(
    await failure(score(backend, request)),
    'INTERNAL: scoreAll returned no list; expected one answer per node, and not a promise',
  );
  await failure(filter(backend, request));
  assert.deepEqual(backend.log, [
    'filterAll returned 0 answers for 1 nodes; expected one per node; this is logged once, correct the policy',
    'scoreAll returned no list; expected one answer per node, and not a promise; this is logged once, correct the policy',
  ]);
});

test('a policy with side effects only decides', async () => {
  const backend = await served(new Obedient(new Info('p', '1').filters(readsAll.sideEffects())));
  const asked = (purpose: Purpose): Promise<string> =>
    failure(filter(backend, { call: { ...call(), purpose }, pod, nodes: inline([row('a')]) }));
  assert.equal(await asked(Purpose.DECIDE), 'OK');
  const expected = 'FAILED_PRECONDITION: this policy has side effects and only answers PURPOSE_DECIDE';
  assert.equal(await asked(Purpose.SHADOW), expected);
  assert.equal(await asked(77 as Purpose), expected);
});

test('a read that is not declared fails the call', async () => {
  const reads = new Reads();
  reads.nodeLabel('else');
  const backend = await served(new Obedient(new Info('p', '1').filters(Verb.perNode().reads(reads))));
  const rows = [{ facts: { labels: { values: ['x'] } } }];
  const nodes = { count: 1, form: { $case: 'rows' as const, value: { rows } } };
  assert.equal(
    await failure(filter(backend, { call: call(reads), pod: { facts: {} }, nodes })),
    'INTERNAL: filter failed: label "do" of the node is read and not declared; declare it with Reads.nodeLabel',
  );
  for (const other of [Reads.everything(), new Reads()]) {
    assert.equal(
      await failure(filter(backend, { call: call(other), pod: { facts: {} }, nodes })),
      'FAILED_PRECONDITION: call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake',
    );
  }
});

class Zoned extends Obedient {
  constructor(
    private readonly zone: string,
    declared = new Info('zoned', '1').filters(readsAll),
  ) {
    super(declared);
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return node.label('zone') === this.zone ? Verdict.reject(`zone is ${this.zone}`) : Verdict.accept;
  }
}

test('args build a policy once, and are checked in the handshake and in each call', async () => {
  let built = 0;
  const schema = args.object({ zone: args.string() });
  const backend = await served(
    Backend.configured(schema, ({ zone }) => {
      built += 1;
      return new Zoned(zone);
    }),
  );
  const nodes = inline([row('a', { zone: 'x' }), row('b', { zone: 'y' })]);
  for (const zone of ['x', 'y', 'x', 'y']) {
    const answer = await filter(backend, {
      call: call(Reads.everything(), JSON.stringify({ zone })),
      pod,
      nodes,
    });
    assert.deepEqual(answer.rejections[0]?.positions, [zone === 'x' ? 0 : 1]);
  }
  assert.equal(built, 2);
  const wrong = '{"zonne":"x"}';
  const expected =
    'INVALID_ARGUMENT: args.zonne: unknown field `zonne`, expected `zone`; args: missing field `zone`';
  assert.equal(await failure(getInfo(backend, { args: Buffer.from(wrong) })), expected);
  assert.equal(
    await failure(filter(backend, { call: call(Reads.everything(), wrong), pod, nodes })),
    expected,
  );
  assert.equal(await failure(getInfo(backend)), 'INVALID_ARGUMENT: args: missing field `zone`');
});

test('args that are too long are refused before they are hashed', async () => {
  const backend = await served(new Obedient(everything));
  const large = Buffer.alloc((1 << 20) + 1, ' ');
  // The digest of others, which is not looked at.
  const other = { ...call(), args: large, argsSha256: sha256('{}') };
  const asked = [
    () => getInfo(backend, { args: large }),
    () => filter(backend, { call: other, pod, nodes: inline([row('a')]) }),
  ];
  for (const ask of asked) {
    assert.equal(await reason(ask()), 'INVALID_ARGUMENT ERROR_REASON_INVALID_ARGS');
    assert.match(await failure(ask()), /^INVALID_ARGUMENT: args has 1048577 bytes; at most 1048576/);
  }
});

test('args are asked for once, and calls name them from then on', async () => {
  let built = 0;
  const backend = await served(
    Backend.configured(args.object({ zone: args.string() }), ({ zone }) => {
      built += 1;
      return new Zoned(zone);
    }),
  );
  const nodes = inline([row('a', { zone: 'x' }), row('b', { zone: 'y' })]);
  const asked = async (given: Given<typeof Call>): Promise<number[] | undefined> =>
    (await filter(backend, { call: { ...call(), ...given }, pod, nodes })).rejections[0]?.positions;
  const json = Buffer.from('{"zone":"y"}');
  const digest = sha256(json);
  assert.equal(
    await failure(asked({ argsSha256: digest })),
    'FAILED_PRECONDITION: the args of this call are not known here; send them',
  );
  assert.deepEqual(await asked({ argsSha256: digest, args: json }), [1]);
  assert.deepEqual(await asked({ argsSha256: digest }), [1]);
  // A handshake and introspection bring args, too.
  await getInfo(backend, { args: Buffer.from('{"zone":"x"}') });
  assert.deepEqual(await asked({ argsSha256: sha256('{"zone":"x"}') }), [0]);
  assert.equal(built, 2);
  const expected = 'INVALID_ARGUMENT ERROR_REASON_INVALID_REQUEST';
  const wrong: [Given<typeof Call>, RegExp][] = [
    [{ args: json }, /args_sha256 has 0 bytes/],
    [{ argsSha256: digest.subarray(1) }, /args_sha256 has 31 bytes/],
    [{ argsSha256: digest, args: Buffer.from('{}') }, /args_sha256 is not the SHA-256 of call\.args/],
    [{ argsSha256: sha256('[]'), args: json }, /args_sha256 is not the SHA-256 of call\.args/],
  ];
  for (const [given, message] of wrong) {
    assert.equal(await reason(asked(given)), expected);
    assert.match(await failure(asked(given)), message);
  }
});

test('a policy without args knows an empty object by its digest, once it has come', async () => {
  const backend = await served(new Obedient(everything));
  const asked = (given: Given<typeof Call>): Promise<string> =>
    reason(filter(backend, { call: { ...call(), ...given }, pod, nodes: inline([row('a')]) }));
  const argsSha256 = sha256('{ }');
  assert.equal(await asked({ argsSha256 }), 'FAILED_PRECONDITION ERROR_REASON_ARGS_UNKNOWN');
  assert.equal(await asked({ argsSha256, args: Buffer.from('{ }') }), 'OK');
  assert.equal(await asked({ argsSha256 }), 'OK');
  assert.equal(await asked({}), 'OK');
});

test('a policy that is replaced answers what was asked for the earlier one', async () => {
  const declared = (key: string): { info: Info; reads: Reads } => {
    const reads = new Reads();
    reads.nodeLabel(key);
    return { info: new Info('zoned', '1').revision(key).filters(Verb.perNode().reads(reads)), reads };
  };
  class Versioned extends Obedient {
    constructor(
      private readonly key: string,
      info: Info,
    ) {
      super(info);
    }

    override filter(_pod: Pod, node: Node): Verdict {
      return Verdict.reject(`${this.key} is ${node.label(this.key) ?? 'absent'}`);
    }
  }
  const first = declared('a');
  const { backend, replace } = Backend.replaceable(new Versioned('a', first.info));
  const server = await served(backend);
  const asked = (reads: Reads): Promise<FilterResponse> => {
    const rows = [{ facts: { labels: { values: ['v'] } } }];
    const nodes = { count: 1, form: { $case: 'rows' as const, value: { rows } } };
    return filter(server, { call: call(reads), pod: { facts: {} }, nodes });
  };
  for (let version = 0; version < 16; version += 1) {
    const { info, reads } = declared(`b${String(version)}`);
    replace(new Versioned(`b${String(version)}`, info));
    assert.equal((await asked(reads)).rejections[0]?.reason, `b${String(version)} is v`);
  }
  const earlier = await asked(first.reads);
  assert.deepEqual([earlier.rejections[0]?.reason, earlier.result?.revision], ['a is v', 'a']);
  assert.equal((await getInfo(server)).revision, 'b15');
  replace(new Versioned('c', declared('c').info));
  assert.match(await failure(asked(first.reads)), /^FAILED_PRECONDITION/);
  assert.throws(() => {
    replace(new Versioned('', new Info('p', '1')));
  }, /no verb is declared/);
  assert.equal((await getInfo(server)).revision, 'c');
});

test('the handshake repeats what the policy declares', async () => {
  const info = await getInfo(await served(new Obedient(everything)));
  assert.deepEqual(
    [info.name, info.version, info.revision, info.apiVersion, info.services, info.maxRequestBytes],
    [
      'obedient',
      '1',
      '1',
      'extender.policy.v1beta1',
      ['extender.policy.v1beta1.NodeTableService', 'extender.policy.v1beta1.WatchService'],
      64n << 20n,
    ],
  );
  assert.deepEqual(
    info.verbs.map(({ verb, reads }) => [verb, reads?.node?.everything]),
    [
      [1, true],
      [2, true],
      [3, undefined],
    ],
  );
});

export type { PolicyServiceClient };
