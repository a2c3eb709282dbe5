import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';

import { Info, type Node, NotReady, type Pod, Policy, Verb, Verdict } from '../src/index.js';
import { NodeView } from '../src/gen/extender/policy/v1beta1/info.js';
import { NodeRow } from '../src/gen/extender/policy/v1beta1/node.js';
import { type FilterResponse, FilterRequest, Miss } from '../src/gen/extender/policy/v1beta1/policy.js';
import { readSync } from '../src/request.js';
import { SyncNodesRequest } from '../src/gen/extender/policy/v1beta1/table.js';
import { Filling, Tables } from '../src/table.js';
import { ask, call, failure, named, row, served, Sync, type Served } from './support.js';

/** Rejects each node with its name and the value of its label. */
class Names extends Policy {
  constructor(private readonly verb = Verb.perNode()) {
    super();
  }

  override info(): Info {
    return new Info('names', '1').filters(this.verb);
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return Verdict.reject(`${node.name} ${node.label('zone') ?? '-'}`);
  }
}

const pod = { facts: { namespace: 'shop' } };
const facts = { nodeView: NodeView.FACTS };

async function filtered(
  { policy }: Served,
  nodes: ReturnType<typeof named>,
  reads = 0,
): Promise<FilterResponse> {
  const request = FilterRequest.fromPartial({ call: call(reads), pod, nodes });
  return ask<FilterRequest, FilterResponse>(policy, policy.filter.bind(policy), request);
}

/** The reasons in the order of the nodes, or the miss. */
async function reasons(backend: Served, nodes: ReturnType<typeof named>, reads = 0): Promise<unknown> {
  const { result, rejections } = await filtered(backend, nodes, reads);
  if (result?.miss !== Miss.UNSPECIFIED) {
    return result?.miss;
  }
  const found = rejections.flatMap(({ reason, positions }) => positions.map((at) => ({ reason, at })));
  return found.toSorted((a, b) => a.at - b.at).map(({ reason }) => reason);
}

test('a table ends with its stream, however that ends', async () => {
  const backend = await served(new Names());
  for (const end of ['finish', 'cancel'] as const) {
    const sync = new Sync(backend);
    await sync.send({ table: 5n, version: 1n, view: facts, upserts: [{ id: 1, row: row('a') }] });
    assert.deepEqual(await reasons(backend, named(5n, 1n, [1])), ['a -']);
    sync[end]();
    await failure(sync.closed());
    const until = Date.now() + 20_000;
    while ((await reasons(backend, named(5n, 1n, [1]))) !== Miss.TABLE_UNKNOWN) {
      assert.ok(Date.now() < until, end);
      await setTimeout(5);
    }
  }
});

test('streams end when the backend shuts down', async () => {
  const backend = await served(new Names());
  const sync = new Sync(backend);
  await sync.send({ table: 5n, version: 1n, view: facts, upserts: [{ id: 1, row: row('a') }] });
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
    row: NodeRow.fromPartial({ name: `n${String(at)}`, facts: { labels } }),
  }));
  const encoded = SyncNodesRequest.encode(
    SyncNodesRequest.fromPartial({ table: 1n, version: 1n, view: facts, upserts }),
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
    table: bigint,
    version: bigint,
    names: string[],
    removed: number[] = [],
  ): ReturnType<typeof readSync> => {
    const upserts = names.map((name, at) => ({ id: at + 1, row: row(name) }));
    const request = SyncNodesRequest.fromPartial({ table, version, view: facts, upserts, removed });
    return readSync(Buffer.from(SyncNodesRequest.encode(request).finish()));
  };
  const [one, two, three] = [new Filling(tables), new Filling(tables), new Filling(tables)];
  await one.apply(message(1n, 1n, ['a']));
  await two.apply(message(2n, 1n, ['a']));
  await assert.rejects(
    three.apply(message(3n, 1n, ['a'])),
    /this backend already holds 2 tables, the maximum/,
  );
  const many = Array.from({ length: 13 }, (_, at) => `n${String(at)}`);
  await assert.rejects(
    two.apply(message(2n, 2n, [...many, 'x', 'y'])),
    /would need more than 10000 bytes; more are refused/,
  );
  // Nothing of it stays.
  two.close();
  for (let round = 0n; round < 50n; round += 1n) {
    const again = new Filling(tables);
    await again.apply(message(4n, 1n, many));
    await again.apply(
      message(
        4n,
        2n,
        ['a'],
        many.map((_, at) => at + 1),
      ),
    );
    again.close();
  }
});

test('a policy that is not ready answers misses and invalid requests all the same', async () => {
  class Unready extends Names {
    override ready(): void {
      throw new NotReady('no prices yet');
    }
  }
  const backend = await served(new Unready());
  assert.equal(await reasons(backend, named(6n, 1n, [1])), Miss.TABLE_UNKNOWN);
  assert.equal(await failure(filtered(backend, named(6n, 1n, [0], [row('a')]))), 'OK');
  const sync = new Sync(backend);
  await sync.send({ table: 5n, version: 1n, view: facts, upserts: [{ id: 1, row: row('a') }] });
  assert.equal(await failure(filtered(backend, named(5n, 1n, [1]))), 'UNAVAILABLE: no prices yet');
});
