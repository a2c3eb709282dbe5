/** A backend on a socket and a client for it. */

import { createHash } from 'node:crypto';
import { after } from 'node:test';

import { ChannelCredentials, type Client, type ServiceError, status } from '@grpc/grpc-js';

import type { Backend } from '../src/backend.js';
import { GetInfoRequest, type GetInfoResponse } from '../src/gen/extender/policy/v1beta1/info.js';
import { HookServiceClient } from '../src/gen/extender/policy/v1beta1/hooks.js';
import { IntrospectionServiceClient } from '../src/gen/extender/policy/v1beta1/introspection.js';
import { NodeRow, type Nodes } from '../src/gen/extender/policy/v1beta1/node.js';
import { OutcomeServiceClient } from '../src/gen/extender/policy/v1beta1/outcomes.js';
import { type Call, PolicyServiceClient, Purpose } from '../src/gen/extender/policy/v1beta1/policy.js';
import {
  NodeTableServiceClient,
  SyncNodesRequest,
  type SyncNodesResponse,
} from '../src/gen/extender/policy/v1beta1/table.js';
import { WatchServiceClient } from '../src/gen/extender/policy/v1beta1/watch.js';
import { Verb } from '../src/info.js';
import type { Policy } from '../src/policy.js';
import { Reads } from '../src/reads.js';
import { listen, type Listening, type ServeOptions } from '../src/serve.js';

const LIMITS = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };

/** A served backend. */
export interface Served {
  readonly listening: Listening;
  readonly log: string[];
  readonly policy: PolicyServiceClient;
  readonly tables: NodeTableServiceClient;
  readonly introspection: IntrospectionServiceClient;
  readonly hooks: HookServiceClient;
  readonly outcomes: OutcomeServiceClient;
  readonly watches: WatchServiceClient;
}

/** Serves a backend until the tests of the file are over. */
export async function served(backend: Policy | Backend, options: ServeOptions = {}): Promise<Served> {
  const log: string[] = [];
  const listening = await listen(backend, {
    log: (line) => log.push(line),
    drainMilliseconds: 200,
    ...options,
  });
  const credentials = ChannelCredentials.createInsecure();
  const clients = {
    policy: new PolicyServiceClient(listening.address, credentials, LIMITS),
    tables: new NodeTableServiceClient(listening.address, credentials, LIMITS),
    introspection: new IntrospectionServiceClient(listening.address, credentials, LIMITS),
    hooks: new HookServiceClient(listening.address, credentials, LIMITS),
    outcomes: new OutcomeServiceClient(listening.address, credentials, LIMITS),
    watches: new WatchServiceClient(listening.address, credentials, LIMITS),
  };
  after(async () => {
    Object.values(clients).forEach((client) => {
      client.close();
    });
    await listening.stop();
  });
  return { listening, log, ...clients };
}

/** The answer to a call. */
export function ask<Q, A>(
  client: Client,
  method: (request: Q, callback: (error: ServiceError | null, answer: A) => void) => unknown,
  request: Q,
): Promise<A> {
  return new Promise((resolve, reject) => {
    method.call(client, request, (error, answer) => {
      if (error === null) {
        resolve(answer);
      } else {
        reject(error);
      }
    });
  });
}

/** How a call fails: the name of the code, and the text. */
export async function failure(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
  } catch (error) {
    const { code, details } = error as ServiceError;
    return `${status[code]}: ${details}`;
  }
  return 'OK';
}

/** How a call or a stream fails: the name of the code, and the reason, which tells errors of one code apart. */
export async function reason(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
  } catch (error) {
    const { code, metadata } = error as ServiceError;
    return [status[code], ...metadata.get('extender-reason')].join(' ');
  }
  return 'OK';
}

/** The handshake. */
export function getInfo({ policy }: Served, request: Partial<GetInfoRequest> = {}): Promise<GetInfoResponse> {
  return ask<GetInfoRequest, GetInfoResponse>(
    policy,
    policy.getInfo.bind(policy),
    GetInfoRequest.fromPartial(request),
  );
}

export function sha256(bytes: Uint8Array | string): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** A verb for a policy that reads whatever a test has. */
export const readsAll = Verb.perNode().reads(Reads.everything());

/** The beginning of a request for a verb with this declaration, with the args and their digest. */
export function call(reads = Reads.everything(), args = ''): Call {
  return {
    id: 'c-1',
    purpose: Purpose.DECIDE,
    gateway: 'g',
    backend: 'b',
    args: Buffer.from(args),
    argsSha256: args === '' ? Buffer.alloc(0) : sha256(args),
    reads: reads.layout().digest,
    snapshot: '',
    cluster: '',
  };
}

/** A node with labels and facts. */
export function row(name: string, labels: Readonly<Record<string, string>> = {}): NodeRow {
  return NodeRow.fromPartial({ name, facts: { labels: { entries: new Map(Object.entries(labels)) } } });
}

/** Nodes in the request. */
export function inline(rows: NodeRow[]): Nodes {
  return { count: rows.length, form: { $case: 'rows', value: { rows } } };
}

/** Nodes by the ids of a table. */
export function named(table: string, atLeast: bigint, ids: number[], rows: NodeRow[] = []): Nodes {
  return { count: ids.length, form: { $case: 'table', value: { table, atLeast, ids, rows } } };
}

/** A stream that fills a table. */
export class Sync {
  private readonly stream;
  private readonly waiting: { resolve: (applied: bigint) => void; reject: (error: Error) => void }[] = [];
  private ended: Error | undefined;

  constructor({ tables }: Served) {
    this.stream = tables.syncNodes();
    this.stream.on('data', ({ applied }: SyncNodesResponse) => this.waiting.shift()?.resolve(applied));
    this.stream.on('error', (error) => {
      this.end(error);
    });
    this.stream.on('end', () => {
      this.end(new Error('the stream has ended'));
    });
  }

  /** Sends a message; the version that is acknowledged. */
  async send(message: Parameters<typeof SyncNodesRequest.fromPartial>[0]): Promise<bigint> {
    return new Promise((resolve, reject) => {
      if (this.ended !== undefined) {
        reject(this.ended);
        return;
      }
      this.waiting.push({ resolve, reject });
      this.stream.write(SyncNodesRequest.fromPartial(message));
    });
  }

  /** The backend ends the stream. */
  async closed(): Promise<bigint> {
    return new Promise((resolve, reject) => {
      if (this.ended !== undefined) {
        reject(this.ended);
        return;
      }
      this.waiting.push({ resolve, reject });
    });
  }

  /** Ends the stream properly. */
  finish(): void {
    this.stream.end();
  }

  /** Resets the stream. */
  cancel(): void {
    this.stream.cancel();
  }

  private end(error: Error): void {
    this.ended ??= error;
    this.waiting.splice(0).forEach(({ reject }) => {
      reject(error);
    });
  }
}
