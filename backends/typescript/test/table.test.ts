import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';

import { Info, type Node, NotReady, type Pod, Policy, Verdict } from '../src/index.js';
import { NodePart } from '../src/gen/extender/policy/v1beta1/info.js';
import { NodeRow } from '../src/gen/extender/policy/v1beta1/node.js';
import { type FilterResponse, FilterRequest, Miss } from '../src/gen/extender/policy/v1beta1/policy.js';
import { readSync } from '../src/request.js';
import { SyncNodesRequest } from '../src/gen/extender/policy/v1beta1/table.js';
import { Filling, Tables } from '../src/table.js';
import { ask, call, failure, named, readsAll, row, served, Sync, type Served } from './support.js';

/** Rejects each node with its name and the value of its label. */
class Names extends Policy {
  override info(): Info {
    return new Info('names', '1').filters(readsAll);
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return Verdict.reject(`${node.name} ${node.label('zone') ?? '-'}`);
  }
}

const pod = { facts: { namespace: 'shop' } };
const reads = { everything: true };

async function filtered({ policy }: Served, nodes: ReturnType<typeof named>): Promise<FilterResponse> {
  const request = FilterRequest.fromPartial({ call: call(), pod, nodes });
  return ask<FilterRequest, FilterResponse>(policy, policy.filter.bind(policy), request);
}

/** The reasons in the order of the nodes, or the miss. */
async function reasons(backend: Served, nodes: ReturnType<typeof named>): Promise<unknown> {
  const { result, rejections } = await filtered(backend, nodes);
  if (result?.outcome?.$case === 'miss') {
    return result.outcome.value;
  }
  const found = rejections.flatMap(({ reason, positions }) => positions.map((at) => ({ reason, at })));
  return found.toSorted((a, b) => a.at - b.at).map(({ reason }) => reason);
}

test('a table ends with its stream, however that ends', async () => {
  const backend = await served(new Names());
  for (const end of ['finish', 'cancel'] as const) {
    const sync = new Sync(backend);
    await sync.send({ table: 't5', version: 1n, reads, upserts: [{ id: 1, row: row('a') }] });
    assert.deepEqual(await reasons(backend, named('t5', 1n, [1])), ['a -']);
    sync[end]();
    await failure(sync.closed());
    const until = Date.now() + 20_000;
    while ((await reasons(backend, named('t5', 1n, [1]))) !== Miss.TABLE_UNKNOWN) {
      assert.ok(Date.now() < until, end);
      await setTimeout(5);
    }
  }
});

test('streams end when the backend shuts down', async () => {
  const backend = await served(new Names());
  const sync = new Sync(backend);
  await sync.send({ table: 't5', version: 1n, reads, upserts: [{ id: 1, row: row('a') }] });
  const closed = failure(sync.closed());
  await backend.listening.stop();
  assert.equal(await closed, 'UNAVAILABLE: this backend is shutting down');
});

test('rows are checked in steps, between which other work is done', async () => {
  const labels = new Map(
    Array.from({ length: 20 }, (_, key) => [`label.example.com/${String(key)}`, 'value']),
  );
  const upserts = Array.from({ length: 15_000 }, (_, at) => ({
    id: at + 1,
    row: NodeRow.fromPartial({ name: `n${String(at)}`, facts: { labels: { entries: labels } } }),
  }));
  const encoded = SyncNodesRequest.encode(
    SyncNodesRequest.fromPartial({ table: 't1', version: 1n, reads, upserts }),
  ).finish();
  const filling = new Filling(new Tables());
  let isApplied = false;
  let steps = 0;
  const count = (): void => {
    steps += 1;
    if (!isApplied) {
      setImmediate(count);
    }
  };
  const began = performance.now();
  const applied = filling.apply(readSync(Buffer.from(encoded)));
  setImmediate(count);
  await applied;
  isApplied = true;
  const took = performance.now() - began;
  // Each step takes 2 ms, and some more for the rows between two looks at the clock.
  assert.ok(steps >= 3, `${String(steps)} steps in ${took.toFixed(0)} ms`);
});

test('tables are limited in number and size, and give back what they took', async () => {
  const tables = new Tables(2, 10_000);
  const message = (
    table: string,
    version: bigint,
    names: string[],
    removed: number[] = [],
  ): ReturnType<typeof readSync> => {
    const upserts = names.map((name, at) => ({ id: at + 1, row: row(name) }));
    const request = SyncNodesRequest.fromPartial({ table, version, reads, upserts, removed });
    return readSync(Buffer.from(SyncNodesRequest.encode(request).finish()));
  };
  const [one, two, three] = [new Filling(tables), new Filling(tables), new Filling(tables)];
  await one.apply(message('t1', 1n, ['a']));
  await two.apply(message('t2', 1n, ['a']));
  await assert.rejects(
    three.apply(message('t3', 1n, ['a'])),
    /this backend already holds 2 tables, the maximum/,
  );
  const many = Array.from({ length: 13 }, (_, at) => `n${String(at)}`);
  await assert.rejects(
    two.apply(message('t2', 2n, [...many, 'x', 'y'])),
    /would need more than 10000 bytes; more are refused/,
  );
  const images = Array.from({ length: 80 }, () => ({}));
  const upserts = [{ id: 1, row: { name: 'x', facts: { images } } }];
  const large = SyncNodesRequest.encode(SyncNodesRequest.fromPartial({ table: 't2', version: 2n, upserts }));
  await assert.rejects(two.apply(readSync(Buffer.from(large.finish()))), /would need more than 10000 bytes/);
  // Nothing of it stays.
  two.close();
  for (let round = 0n; round < 50n; round += 1n) {
    const again = new Filling(tables);
    await again.apply(message('t4', 1n, many));
    await again.apply(
      message(
        't4',
        2n,
        ['a'],
        many.map((_, at) => at + 1),
      ),
    );
    again.close();
  }
});

test('the name of a table is a short text of printable ASCII, and stays the same', async () => {
  const backend = await served(new Names());
  const begun = (table: string): Promise<string> =>
    failure(new Sync(backend).send({ table, version: 1n, reads, upserts: [{ id: 1, row: row('a') }] }));
  assert.equal(await begun('~'.repeat(64)), 'OK');
  assert.deepEqual(await reasons(backend, named('~'.repeat(64), 1n, [1])), ['a -']);
  assert.match(await begun(''), /^INVALID_ARGUMENT: table is missing; it is a random text/);
  for (const name of ['~'.repeat(65), 'a\nb', 'ä', 'a\n']) {
    assert.match(await begun(name), /^INVALID_ARGUMENT: table is no text of at most 64 bytes/);
  }
  const sync = new Sync(backend);
  await sync.send({ table: 'one', version: 1n, reads });
  assert.match(await begun('one'), /^INVALID_ARGUMENT: table "one" already has a stream/);
  assert.equal(
    await failure(sync.send({ table: 'two', version: 2n })),
    'INVALID_ARGUMENT: table is no longer "one"; it is the same in all messages of a stream',
  );
});

test('a table says what its rows contain, and answers calls for the same alone', async () => {
  const backend = await served(new Names());
  const begun = (table: string, of: Parameters<typeof SyncNodesRequest.fromPartial>[0]): Promise<string> =>
    failure(new Sync(backend).send({ table, version: 1n, ...of }));
  const upserts = [{ id: 1, row: row('a') }];
  assert.equal(
    await begun('t1', { upserts }),
    'INVALID_ARGUMENT: reads is missing; the first message says what the rows contain',
  );
  assert.equal(
    await begun('t1', { reads: { labels: { keys: ['k'.repeat(318)] } } }),
    'INVALID_ARGUMENT: reads has a key or prefix of 318 bytes; expected at most 317',
  );
  assert.equal(
    await begun('t1', { reads: { parts: Array.from({ length: 65 }, () => NodePart.TAINTS) } }),
    'INVALID_ARGUMENT: reads has 65 parts; expected at most 64',
  );
  const bare = [{ id: 1, row: { ...row('a'), facts: undefined } }];
  const wants: [Parameters<typeof SyncNodesRequest.fromPartial>[0]['reads'], string][] = [
    [{ everything: true }, "facts is missing; the table's reads have it"],
    [{ parts: [NodePart.NAME, NodePart.USAGE] }, "facts is missing; the table's reads have it"],
    [{ labels: { prefixes: [''] } }, "facts is missing; the table's reads have it"],
    [{ podCounts: [{}] }, "facts is missing; the table's reads have it"],
  ];
  for (const [of, expected] of wants) {
    assert.equal(
      await begun('t1', { reads: of, upserts: bare }),
      `INVALID_ARGUMENT: upserts[0].row.${expected}`,
    );
  }
  assert.equal(
    await begun('t1', { reads, upserts: [{ id: 1, row: row('') }] }),
    "INVALID_ARGUMENT: upserts[0].row.name is missing; the table's reads have it",
  );
  assert.equal(await begun('t2', { reads: { parts: [NodePart.NAME] }, upserts: bare }), 'OK');
  assert.equal(await begun('t3', { reads: { ...reads, parts: [NodePart.USAGE] }, upserts }), 'OK');
  assert.equal(await begun('t4', { reads, upserts }), 'OK');
  const found = ['t2', 't3', 't4'].map((table) => reasons(backend, named(table, 1n, [1])));
  assert.deepEqual(await Promise.all(found), [Miss.TABLE_UNKNOWN, Miss.TABLE_UNKNOWN, ['a -']]);
});

test('a policy that is not ready answers misses and invalid requests all the same', async () => {
  class Unready extends Names {
    override ready(): void {
      throw new NotReady('no prices yet');
    }
  }
  const backend = await served(new Unready());
  assert.equal(await reasons(backend, named('t6', 1n, [1])), Miss.TABLE_UNKNOWN);
  assert.equal(await failure(filtered(backend, named('t6', 1n, [0], [row('a')]))), 'OK');
  const sync = new Sync(backend);
  await sync.send({ table: 't5', version: 1n, reads, upserts: [{ id: 1, row: row('a') }] });
  assert.equal(await failure(filtered(backend, named('t5', 1n, [1]))), 'UNAVAILABLE: no prices yet');
});
