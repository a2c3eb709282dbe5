import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { ChannelCredentials, Metadata, Server, ServerCredentials } from '@grpc/grpc-js';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';

import { Hook, Info, type Node, NodeChange, type Pod, Policy, Reads, Verdict } from '../src/index.js';
import { ChangeRequest, type HookServiceClient } from '../src/gen/extender/policy/v1beta1/hooks.js';
import { Verb as VerbNumber } from '../src/gen/extender/policy/v1beta1/info.js';
import {
  BindRequest,
  FilterRequest,
  PolicyServiceClient,
} from '../src/gen/extender/policy/v1beta1/policy.js';
import { TelemetryError, Tracer } from '../src/telemetry.js';
import { call, inline, named, readsAll, row, served } from './support.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

function traced(traceparent: string): Metadata {
  const metadata = new Metadata();
  metadata.set('traceparent', traceparent);
  metadata.set('tracestate', 'vendor=1');
  return metadata;
}

function filtered(
  client: PolicyServiceClient,
  metadata: Metadata,
  nodes = inline([row('a'), row('bad')]),
): Promise<string> {
  const request = FilterRequest.fromPartial({ call: call(), pod: { facts: {} }, nodes });
  return new Promise((resolve) => {
    client.filter(request, metadata, (error, answer) => {
      resolve(error === null ? String(answer.rejections.length) : error.details);
    });
  });
}

class Rejecting extends Policy {
  override info(): Info {
    return new Info('rejecting', '1').revision('r').filters(readsAll);
  }

  override filter(_pod: Pod, node: Node): Verdict {
    if (node.name === 'throw') {
      throw new Error('as asked');
    }
    return node.name === 'bad' ? Verdict.reject('bad') : Verdict.accept;
  }
}

test('a traced call has a span with the attributes of the contract, any other has none', async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const { policy } = await served(new Rejecting(), { telemetry: { provider } });
  const none = [
    '',
    'nonsense',
    `00-${TRACE}-${PARENT}-00`,
    `ff-${TRACE}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-01-more`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
  ];
  for (const traceparent of none) {
    assert.equal(await filtered(policy, traced(traceparent)), '1');
  }
  assert.equal(exporter.getFinishedSpans().length, 0);

  assert.equal(await filtered(policy, traced(`00-${TRACE}-${PARENT}-01`)), '1');
  const [span] = exporter.getFinishedSpans();
  assert.ok(span !== undefined);
  assert.equal(span.name, 'extender.policy.v1beta1.PolicyService/Filter');
  assert.equal(span.spanContext().traceId, TRACE);
  assert.equal(span.parentSpanContext?.spanId, PARENT);
  assert.equal(span.spanContext().traceState?.serialize(), 'vendor=1');
  const server = 1;
  assert.equal(span.kind, server);
  assert.deepEqual(span.attributes, {
    'rpc.system.name': 'grpc',
    'rpc.method': 'extender.policy.v1beta1.PolicyService/Filter',
    'rpc.response.status_code': 'OK',
    'extender.policy.name': 'rejecting',
    'extender.policy.revision': 'r',
    'extender.backend.name': 'b',
    'extender.call.id': 'c-1',
    'extender.nodes.evaluated': 2,
    'extender.nodes.rejected': 1,
  });

  exporter.reset();
  await filtered(policy, traced(`00-${TRACE}-${PARENT}-01`), inline([row('throw')]));
  await filtered(policy, traced(`00-${TRACE}-${PARENT}-01`), named('t', 1n, [1]));
  const [failed, missed] = exporter.getFinishedSpans();
  assert.deepEqual(
    [failed?.status, failed?.attributes['error.type'], failed?.attributes['rpc.response.status_code']],
    [{ code: 2, message: "INTERNAL: filter failed (Error); see the policy's log" }, 'INTERNAL', 'INTERNAL'],
  );
  assert.equal(missed?.attributes['extender.miss'], 'MISS_TABLE_UNKNOWN');
});

class Hooked extends Policy {
  override info(): Info {
    return new Info('hooked', '1')
      .revision('r')
      .beforeFilter(Hook.changes('podLabels'))
      .beforeFilterNodes(Hook.changes('nodeLabels'));
  }

  override beforeFilter(): undefined {
    return undefined;
  }

  override beforeFilterNode(): NodeChange {
    return new NodeChange({ removeLabels: ['a'] });
  }
}

function hooked(client: HookServiceClient, metadata: Metadata): Promise<void> {
  const pod = { facts: {} };
  const nodes = inline([row('a'), row('b')]);
  const ofPod = ChangeRequest.fromPartial({ call: call(new Reads()), pod, hook: VerbNumber.BEFORE_FILTER });
  const ofNodes = ChangeRequest.fromPartial({
    call: { ...call(new Reads()), cluster: 'east' },
    pod,
    nodes,
    hook: VerbNumber.BEFORE_FILTER_NODES,
  });
  return new Promise((resolve, reject) => {
    client.change(ofPod, metadata, () => {
      client.change(ofNodes, metadata, (error) => {
        if (error === null) {
          resolve();
        } else {
          reject(error);
        }
      });
    });
  });
}

test('a traced hook has a span, with the number of nodes but none of rejected ones', async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const { hooks } = await served(new Hooked(), { telemetry: { provider } });
  await hooked(hooks, traced(`00-${TRACE}-${PARENT}-01`));
  const found = exporter.getFinishedSpans().map(({ name, attributes }) => ({ name, attributes }));
  const span = (hook: string, nodes: number, cluster: object = {}): (typeof found)[number] => ({
    name: 'extender.policy.v1beta1.HookService/Change',
    attributes: {
      'rpc.system.name': 'grpc',
      'rpc.method': 'extender.policy.v1beta1.HookService/Change',
      'extender.hook': hook,
      'rpc.response.status_code': 'OK',
      'extender.policy.name': 'hooked',
      'extender.policy.revision': 'r',
      'extender.backend.name': 'b',
      'extender.call.id': 'c-1',
      'extender.nodes.evaluated': nodes,
      ...cluster,
    },
  });
  const cluster = { 'extender.cluster.name': 'east' };
  assert.deepEqual(found, [span('beforeFilter', 1), span('beforeFilterNodes', 2, cluster)]);
});

test('variables that cannot be followed are named', async () => {
  const start = (environment: Record<string, string>): Promise<Tracer> =>
    Tracer.start({ environment }, { name: 'p', version: '1' });
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };
  assert.equal(await start({}), Tracer.none);
  assert.equal(await start({ ...endpoint, OTEL_SDK_DISABLED: 'true' }), Tracer.none);
  assert.equal(await start({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' }), Tracer.none);
  await assert.rejects(start({ ...endpoint, OTEL_TRACES_EXPORTER: 'zipkin' }), TelemetryError);
  await assert.rejects(
    start({ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }),
    /OTEL_EXPORTER_OTLP_PROTOCOL is "http\/json"; expected grpc or http\/protobuf/,
  );
});

async function program(
  environment: Record<string, string>,
): Promise<{ at: string; stop: () => Promise<number | null> }> {
  const path = fileURLToPath(new URL('traced-policy.js', import.meta.url));
  const env = { ...process.env, ...environment };
  const child = spawn(process.execPath, [path], { stdio: ['ignore', 'pipe', 'inherit'], env });
  after(() => child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const stop = async (): Promise<number | null> => {
    child.kill('SIGTERM');
    await once(child, 'exit');
    return child.exitCode;
  };
  return { at: line.toString().trim().replace('listening on ', ''), stop };
}

function bound(client: PolicyServiceClient, metadata: Metadata, node: string): Promise<string> {
  const request = BindRequest.fromPartial({
    call: call(new Reads()),
    namespace: 'shop',
    name: 'p',
    uid: 'u',
    node,
  });
  return new Promise((resolve) => {
    client.bind(request, metadata, (error, answer) => {
      resolve(error === null ? String(answer.outcome) : error.details);
    });
  });
}

async function body(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

test('spans are sent over HTTP when the program ends, and requests of the policy carry on the trace', async () => {
  const received: Buffer[] = [];
  const parents: string[] = [];
  const collector = createServer((request, response) => {
    void body(request).then((bytes) => {
      if (request.url === '/v1/traces') {
        received.push(bytes);
      } else {
        parents.push(String(request.headers['traceparent']));
      }
      response.end();
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  after(() => collector.close());
  const url = `http://127.0.0.1:${String((collector.address() as AddressInfo).port)}`;
  const { at, stop } = await program({
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    ELSEWHERE: `${url}/elsewhere`,
    OTEL_BSP_SCHEDULE_DELAY: '60000',
  });
  const client = new PolicyServiceClient(at, ChannelCredentials.createInsecure());
  const metadata = traced(`00-${TRACE}-${PARENT}-01`);
  assert.equal(await filtered(client, metadata), '1');
  assert.equal(await bound(client, metadata, 'a'), '1');
  assert.equal(await bound(client, metadata, 'bad'), "bind failed (Error); see the policy's log");
  client.close();
  assert.equal(await stop(), 0);
  const all = Buffer.concat(received);
  for (const text of ['PolicyService/Filter', 'PolicyService/Bind', 'service.name', 'traced', 'INTERNAL']) {
    assert.ok(all.includes(text), text);
  }
  assert.ok(all.includes(Buffer.from(TRACE, 'hex')) && all.includes(Buffer.from(PARENT, 'hex')));
  assert.equal(parents.length, 1);
  const [, trace, span, flags] = parents[0]?.split('-') ?? [];
  assert.deepEqual([trace, flags], [TRACE, '01']);
  assert.ok(span !== undefined && span !== PARENT && all.includes(Buffer.from(span, 'hex')));
});

test('spans are sent over gRPC', async () => {
  const received: Buffer[] = [];
  const collector = new Server();
  const bytes = { serialize: (value: Buffer) => value, deserialize: (value: Buffer) => value };
  const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';
  collector.register(
    path,
    ({ request }: { request: Buffer }, answer: (error: null, value: Buffer) => void) => {
      received.push(request);
      answer(null, Buffer.alloc(0));
    },
    bytes.serialize,
    bytes.deserialize,
    'unary',
  );
  const port = await new Promise<number>((resolve, reject) => {
    collector.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, taken) => {
      if (error === null) {
        resolve(taken);
      } else {
        reject(error);
      }
    });
  });
  after(() => {
    collector.forceShutdown();
  });
  const { at, stop } = await program({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${String(port)}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_SERVICE_NAME: 'prices',
  });
  const client = new PolicyServiceClient(at, ChannelCredentials.createInsecure());
  assert.equal(await filtered(client, traced(`00-${TRACE}-${PARENT}-01`)), '1');
  client.close();
  assert.equal(await stop(), 0);
  const all = Buffer.concat(received);
  assert.ok(all.includes('PolicyService/Filter') && all.includes('prices'));
});

test('a collector that does not answer delays the end by at most 5 s', async () => {
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  after(() => {
    silent.closeAllConnections();
    silent.close();
  });
  const url = `http://127.0.0.1:${String((silent.address() as AddressInfo).port)}`;
  const { at, stop } = await program({ OTEL_EXPORTER_OTLP_ENDPOINT: url });
  const client = new PolicyServiceClient(at, ChannelCredentials.createInsecure());
  assert.equal(await filtered(client, traced(`00-${TRACE}-${PARENT}-01`)), '1');
  client.close();
  await setTimeout(10);
  const began = Date.now();
  assert.equal(await stop(), 0);
  assert.ok(Date.now() - began < 7_000, String(Date.now() - began));
});
