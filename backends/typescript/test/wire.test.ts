import assert from 'node:assert/strict';
import { test } from 'node:test';

import { answerReport } from '../src/answer/outcomes.js';
import { answer } from '../src/answer/verbs.js';
import { answerBind } from '../src/answer.js';
import { NodeRow } from '../src/gen/extender/policy/v1beta1/node.js';
import { FilterRequest } from '../src/gen/extender/policy/v1beta1/policy.js';
import { Backend, Hook, Info, Policy, Scale, Verb } from '../src/index.js';
import { decoding, type QuestionVerb, readQuestion } from '../src/request.js';
import { Row } from '../src/row.js';
import { Tables } from '../src/table.js';
import { compareBytes, cut } from '../src/text.js';
import { Fields, Malformed, textAt } from '../src/wire.js';

/** Numbers that are the same in each run. */
function randomly(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const TEXTS = ['', 'a', 'zone', 'ä', '\u{1f600}', 'x'.repeat(200)];
const AMOUNTS = [
  0n,
  1n,
  -1n,
  127n,
  128n,
  2n ** 49n - 1n,
  2n ** 49n,
  2n ** 53n + 1n,
  2n ** 63n - 1n,
  -(2n ** 63n),
];

function randomRow(random: (below: number) => number): NodeRow {
  const text = (): string => TEXTS[random(TEXTS.length)] ?? '';
  const amount = (): bigint => AMOUNTS[random(AMOUNTS.length)] ?? 0n;
  const some = <T>(make: () => T): T[] => Array.from({ length: random(4) }, make);
  const map = <T>(make: () => T): Map<string, T> => new Map(some(() => [text(), make()]));
  const resources = (): object => ({
    milliCpu: amount(),
    memory: amount(),
    ephemeralStorage: amount(),
    pods: amount(),
    others: map(amount),
  });
  const requests = (): object => ({
    requested: resources(),
    nonzero: { milliCpu: amount(), memory: amount() },
  });
  return NodeRow.fromPartial({
    name: text(),
    facts: {
      taints: some(() => ({ key: text(), value: text(), effect: text() })),
      unschedulable: random(2) === 1,
      conditions: map(text),
      ...(random(2) === 1 ? { capacity: resources() } : {}),
      ...(random(2) === 1 ? { allocatable: resources() } : {}),
      images: some(() => ({ names: some(text), bytes: amount() })),
      ...(random(2) === 1 ? { systemInfo: { architecture: text(), containerRuntimeVersion: text() } } : {}),
      addresses: some(() => ({ type: text(), address: text() })),
      providerId: text(),
      ...(random(2) === 1 ? { labels: { values: some(text), entries: map(text) } } : {}),
      ...(random(2) === 1 ? { annotations: { values: some(text), entries: map(text) } } : {}),
    },
    rawJson: Buffer.from(text()),
    ...(random(2) === 1 ? { usage: requests() } : {}),
    ...(random(2) === 1 ? { nominated: requests() } : {}),
    podCounts: some(() => ({
      counts: [...new Set(some(text))].toSorted(compareBytes).map((value) => ({
        value,
        pods: random(2 ** 32 - 1),
        terminating: random(5),
        requested: resources(),
      })),
      omittedPods: random(300),
    })),
  });
}

test('a row that stays encoded has what the generated code decodes', () => {
  const random = randomly(7);
  for (let round = 0; round < 500; round += 1) {
    const expected = randomRow(random);
    const row = Row.read(Buffer.from(NodeRow.encode(expected).finish()));
    const { facts, usage, nominated, podCounts } = expected;
    assert.equal(row.name, expected.name);
    assert.deepEqual(row.map('label'), facts?.labels?.entries ?? new Map());
    assert.deepEqual(row.map('annotation'), facts?.annotations?.entries ?? new Map());
    assert.deepEqual(row.map('condition'), facts?.conditions);
    assert.deepEqual(row.taints, facts?.taints);
    assert.equal(row.isUnschedulable, facts?.unschedulable);
    assert.deepEqual([row.capacity, row.allocatable], [facts?.capacity, facts?.allocatable]);
    assert.deepEqual(row.usage, usage);
    assert.deepEqual(row.nominated, nominated);
    assert.deepEqual(row.images, facts?.images);
    assert.deepEqual(row.systemInfo, facts?.systemInfo);
    assert.deepEqual(row.addresses, facts?.addresses);
    assert.equal(row.providerId ?? '', facts?.providerId);
    for (const [position, value] of (facts?.labels?.values ?? []).entries()) {
      assert.equal(row.value('label', position), value);
    }
    for (const [position, { counts, omittedPods }] of podCounts.entries()) {
      assert.deepEqual(row.podCounts(position).counts, counts);
      assert.equal(row.podCounts(position).omittedPods, omittedPods);
    }
    const terms = {
      name: false,
      facts: true,
      labels: facts?.labels?.values.length ?? 0,
      annotations: facts?.annotations?.values.length ?? 0,
      pods: podCounts.length,
    };
    assert.equal(row.wrong(terms, ''), undefined);
    assert.match(
      row.wrong({ ...terms, annotations: terms.annotations + 1 }, '') ?? '',
      /^facts\.annotations\.values has/,
    );
    assert.equal(Buffer.from(row.rawJson ?? []).toString(), Buffer.from(expected.rawJson).toString());
  }
});

test('bytes that are cut off or changed are an error, or another row, and never anything else', () => {
  const random = randomly(11);
  for (let round = 0; round < 200; round += 1) {
    const bytes = Buffer.from(NodeRow.encode(randomRow(random)).finish());
    bytes[random(bytes.length)] = random(256);
    const changed = bytes.subarray(0, random(bytes.length + 1));
    let row: Row;
    try {
      row = Row.read(changed);
    } catch (error) {
      assert.ok(error instanceof Malformed, String(error));
      continue;
    }
    // What was checked can be read.
    const read: unknown[] = [row.name, row.map('label'), row.taints, row.capacity, row.usage];
    read.push(row.nominated, row.allocatable);
    read.push(row.isUnschedulable, row.images, row.systemInfo, row.addresses, row.providerId);
    assert.equal(read.length, 12);
  }
});

test('a message that comes in pieces is read as one', () => {
  const piece = (row: Parameters<typeof NodeRow.fromPartial>[0]): Uint8Array =>
    NodeRow.encode(NodeRow.fromPartial(row)).finish();
  const row = Row.read(
    Buffer.concat([
      piece({
        facts: { labels: { entries: new Map([['a', '1']]) }, capacity: { milliCpu: 1n, memory: 2n } },
      }),
      piece({ name: 'n', facts: { labels: { entries: new Map([['b', '2']]) }, capacity: { milliCpu: 3n } } }),
    ]),
  );
  assert.deepEqual(
    row.map('label'),
    new Map([
      ['a', '1'],
      ['b', '2'],
    ]),
  );
  assert.deepEqual([row.name, row.capacity?.milliCpu, row.capacity?.memory], ['n', 3n, 2n]);
});

test('a text is what its bytes are, whichever texts were read before', () => {
  const texts = Array.from(
    { length: 20_000 },
    (_, at) => `${['a', 'ä', '\ufeff'][at % 3] ?? ''}${String(at)}`,
  );
  for (const text of [...texts, ...texts]) {
    const bytes = Buffer.from(`>${text}<`);
    assert.equal(textAt(bytes, 1, bytes.length - 1), text);
  }
});

test('what is no protobuf is an error', () => {
  const cases: [string, number[]][] = [
    ['field 0', [0x00, 0x01]],
    ['a varint of eleven bytes', [0x08, ...Array.from({ length: 10 }, () => 0x80), 0x01]],
    ['a length past the end', [0x0a, 0x05, 0x61]],
    ['no length', [0x0a]],
    ['a group', [0x0b, 0x0c]],
    ['wire type 6', [0x0e]],
    ['a fixed number past the end', [0x0d, 1, 2, 3]],
  ];
  for (const [what, bytes] of cases) {
    const fields = new Fields(Buffer.from(bytes));
    assert.throws(
      () => {
        while (fields.next());
      },
      Malformed,
      what,
    );
  }
  assert.throws(() => Row.read(Buffer.from([0x0a, 0x01, 0xff])), /a text is not UTF-8/);
});

test('counts that are not in order are an error', () => {
  const counts = ['b', 'a'].map((value) => ({ value, pods: 1 }));
  const row = NodeRow.fromPartial({ name: 'a', podCounts: [{}, { counts }] });
  assert.throws(
    () => Row.read(Buffer.from(NodeRow.encode(row).finish())),
    /pod_counts\[1\]\.counts is not in ascending order of namespace and value, each once/,
  );
});

class Everything extends Policy {
  constructor() {
    super();
    const hooks = ['beforeFilter', 'beforeFilterNode', 'beforeScore'];
    const methods = ['filter', 'score', 'preempt', 'bind', 'observe', ...hooks];
    Object.assign(this, Object.fromEntries(methods.map((name) => [name, () => undefined])));
  }

  override info(): Info {
    const [verb, hook] = [Verb.perNode(), Hook.changes('nodeLabels')];
    const info = new Info('everything', '1')
      .filters(verb)
      .scores(verb, Scale.unbounded())
      .preempts(verb)
      .binds()
      .observesOutcomes();
    return info.beforeFilter(Hook.changes('podLabels')).beforeFilterNodes(hook).beforeScore(hook);
  }
}

/** Encoded fields, each in the one before. */
function nested(fields: readonly number[], innermost: Buffer): Buffer {
  const varint = (number: number): number[] =>
    number < 128 ? [number] : [(number % 128) + 128, ...varint(Math.floor(number / 128))];
  return fields.reduceRight((inner, field) => {
    const start = [...varint(field * 8 + 2), ...varint(inner.length)];
    return Buffer.concat([Buffer.from(start), inner]);
  }, innermost);
}

test('small messages that would become large are refused, by each verb', async () => {
  const backend = Backend.of(new Everything());
  const note = (): void => undefined;
  const expected = /would take more than \d+ decoded; send fewer and fuller entries/;
  const tolerations = Buffer.alloc(6_000_000, Buffer.from([0x42, 0x00]));
  const pod = nested([2, 2], tolerations);
  const nodes = nested([3, 3, 3], Buffer.alloc(2_000_000, 1));
  const candidates = nested([4, 1, 2, 2], tolerations);
  const asked = (verb: QuestionVerb, message: Buffer) => (): unknown =>
    answer(verb, { backend, tables: new Tables(), message, note });
  for (const verb of [
    'Filter',
    'Score',
    'Preempt',
    'BeforeFilter',
    'BeforeFilterNodes',
    'BeforeScore',
  ] as const) {
    assert.throws(asked(verb, pod), expected, verb);
    if (verb !== 'BeforeFilter') {
      assert.throws(asked(verb, nodes), expected, verb);
    }
  }
  assert.throws(asked('Preempt', candidates), expected);
  const empty = (field: number): Buffer => Buffer.alloc(9_000_000, nested([field], Buffer.alloc(0)));
  const lists = [
    ...[
      [18, 3],
      [20],
      [20, 4],
      [21, 1],
      [21, 2],
      [21, 3, 1, 1],
      [21, 4, 2, 3, 2],
      [22],
      [22, 4, 2],
      [23],
    ].map((path) => [2, 2, ...path]),
    // Rows, and what a policy decodes of them.
    ...[[], [2, 3], [2, 14], [2, 16]].map((path) => [3, 2, 1, ...path]),
    ...[
      [2, 3],
      [2, 14],
      [2, 16],
    ].map((path) => [3, 3, 4, ...path]),
  ];
  for (const path of lists) {
    const message = nested(path.slice(0, -1), empty(path.at(-1) ?? 0));
    assert.throws(asked('Filter', message), expected, path.join('.'));
  }
  const { signal } = new AbortController();
  await assert.rejects(answerBind(backend, nested([6, 2], tolerations), { signal, note }), expected);
  await assert.rejects(answerReport(backend, empty(2), note), expected);
  const row = nested([3, 3, 4], Buffer.alloc(0));
  assert.throws(asked('Filter', row), /nodes\.table\.rows has an empty entry; each entry has content/);
});

test('texts of a request must be UTF-8', () => {
  const request = Buffer.from(
    FilterRequest.encode(FilterRequest.fromPartial({ pod: { facts: { namespace: 'zz' } } })).finish(),
  );
  request[request.length - 1] = 0xff;
  assert.throws(
    () => decoding(() => readQuestion(request, 'Filter')),
    /^CallError: the message cannot be decoded: /,
  );
});

test('texts are compared and cut by their bytes', () => {
  const texts = ['', 'a', 'ab', 'b', 'ä', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}'];
  for (const [at, a] of texts.entries()) {
    for (const [to, b] of texts.entries()) {
      assert.equal(Math.sign(compareBytes(a, b)), Math.sign(at - to), JSON.stringify([a, b]));
      assert.equal(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))), Math.sign(at - to));
    }
  }
  assert.equal(cut('ä'.repeat(10), 5), 'ää');
  assert.equal(cut('\u{1f600}x', 4), '\u{1f600}');
  assert.equal(cut('abc', 3), 'abc');
});

test('an object is read whatever its managed fields have', () => {
  const raw = Buffer.concat([
    Buffer.from('{"metadata":{"managedFields":[{"fieldsV1":{"f:'),
    Buffer.from([0xff]),
    Buffer.from(`":${'['.repeat(9_000)}1e400${']'.repeat(9_000)},"n":${'9'.repeat(5_000)}}}],"name":"a"}}`),
  ]);
  const row = Row.read(
    Buffer.from(NodeRow.encode(NodeRow.fromPartial({ name: 'a', rawJson: raw })).finish()),
  );
  assert.equal((row.raw as { metadata: { name: string } }).metadata.name, 'a');
});
