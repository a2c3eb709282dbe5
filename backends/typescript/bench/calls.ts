/**
 * Times calls of the reference policy about 500 nodes, over a socket: by table, and inline. The client is a process of
 * its own, as a gateway is.
 *
 * usage: node dist/bench/calls.js [HOST:PORT]
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { ChannelCredentials } from '@grpc/grpc-js';

import {
  GetInfoRequest,
  type GetInfoResponse,
  type VerbInfo,
} from '../src/gen/extender/policy/v1alpha1/info.js';
import { NodeRow, type Nodes } from '../src/gen/extender/policy/v1alpha1/node.js';
import {
  FilterRequest,
  type FilterResponse,
  PolicyServiceClient,
  Purpose,
} from '../src/gen/extender/policy/v1alpha1/policy.js';
import {
  NodeTableServiceClient,
  SyncNodesRequest,
  type SyncNodesResponse,
} from '../src/gen/extender/policy/v1alpha1/table.js';

const NODES = 500;
const CALLS = 300;
const ARGS = Buffer.from('{"zone":"zone-9"}');

const address = process.argv[2] ?? (await started());
const policy = new PolicyServiceClient(address, ChannelCredentials.createInsecure());
const tables = new NodeTableServiceClient(address, ChannelCredentials.createInsecure());

const info = await new Promise<GetInfoResponse>((resolve, reject) => {
  policy.getInfo(GetInfoRequest.fromPartial({ args: ARGS }), (error, response) => {
    if (error === null) {
      resolve(response);
    } else {
      reject(error);
    }
  });
});
const filter = info.verbs.find(({ verb }) => verb === 1);
if (filter?.reads === undefined) {
  throw new Error('this is not the reference policy');
}
const rows = Array.from({ length: NODES }, (_, node) => row(node));
await filled(rows, filter);
const ids = rows.map((_, at) => at + 1);
const byTable: Nodes = {
  count: NODES,
  form: { $case: 'table', value: { table: 7n, atLeast: 1n, ids, rows: [] } },
};
const inline: Nodes = { count: NODES, form: { $case: 'rows', value: { rows } } };
await report('500 nodes by table', byTable, filter);
await report('500 nodes inline', inline, filter);
process.exit(0);

async function started(): Promise<string> {
  const program = fileURLToPath(new URL('../examples/reference/main.js', import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
  process.on('exit', () => child.kill());
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return line.toString().trim().replace('listening on ', '');
}

function row(node: number): NodeRow {
  const amounts = {
    milliCpu: 8_000n,
    memory: 34_359_738_368n,
    ephemeralStorage: 107_374_182_400n,
    pods: 110n,
  };
  return NodeRow.fromPartial({
    name: `node-${String(node)}`,
    facts: {
      labelValues: [`zone-${String(node % 3)}`],
      taints: node % 5 === 0 ? [{ key: 'dedicated', value: 'batch', effect: 'NoSchedule' }] : [],
      allocatable: amounts,
    },
    podCounts: [{ counts: [{ value: `owner-${String(node % 50)}`, pods: 2 }], omittedPods: 0 }],
  });
}

async function filled(all: NodeRow[], verb: VerbInfo): Promise<void> {
  const stream = tables.syncNodes();
  const applied = new Promise<SyncNodesResponse>((resolve) => stream.once('data', resolve));
  stream.write(
    SyncNodesRequest.fromPartial({
      table: 7n,
      version: 1n,
      view: { nodeView: verb.nodeView, reads: verb.reads?.node },
      upserts: all.map((upserted, at) => ({ id: at + 1, row: upserted })),
      complete: true,
    }),
  );
  await applied;
}

async function report(what: string, nodes: Nodes, verb: VerbInfo): Promise<void> {
  const request = FilterRequest.fromPartial({
    call: { id: 'c', purpose: Purpose.DECIDE, args: ARGS, reads: verb.reads?.id ?? 0 },
    pod: {
      facts: {
        labelValues: ['shop'],
        owner: { uid: 'owner-7' },
        requests: { milliCpu: 500n, memory: 1_073_741_824n },
        tolerations: [{ key: 'dedicated', operator: 'Exists' }],
      },
    },
    nodes,
  });
  const times: number[] = [];
  for (let at = 0; at < CALLS; at += 1) {
    const began = performance.now();
    await asked(request);
    times.push(performance.now() - began);
  }
  const sorted = times.slice(50).toSorted((a, b) => a - b);
  const part = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2);
  process.stdout.write(`${what}: median ${part(0.5)} ms, 90 % ${part(0.9)} ms, 99 % ${part(0.99)} ms\n`);
}

async function asked(request: FilterRequest): Promise<FilterResponse> {
  return new Promise((resolve, reject) => {
    policy.filter(request, (error, response) => {
      if (error === null && response.result?.evaluated === NODES) {
        resolve(response);
      } else {
        reject(error ?? new Error(`another answer: ${JSON.stringify(response)}`));
      }
    });
  });
}
