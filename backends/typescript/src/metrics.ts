/**
 * Metrics of calls in Prometheus' text format, beside those that the policy registers itself. The package prom-client is
 * optional: it is loaded only if an address is given.
 */

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { EndedCall } from './calls.js';
import { ListenError } from './errors.js';
import type { Tables } from './table.js';

/** Of scrapes, at a time. */
const MAX_CONNECTIONS = 64;

/** How long a request may take to arrive, and a response may wait for a client that does not read. */
const REQUEST_MILLISECONDS = 10_000;

const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

/** An address for metrics is given, and they cannot be served. */
export class MetricsError extends Error {
  override readonly name = 'MetricsError';
}

/** The metrics of a server. */
export class Metrics {
  private readonly server: Server;

  private constructor(
    /** Where they are served, with the port that was taken. */
    public address: string,
    text: () => Promise<string>,
    contentType: string,
    /** Counts a call. */
    readonly count: (call: EndedCall) => void,
  ) {
    const options = {
      requestTimeout: REQUEST_MILLISECONDS,
      connectionsCheckingInterval: REQUEST_MILLISECONDS / 2,
    };
    this.server = createServer(options, (request, response) => {
      response.setHeader('connection', 'close');
      if (request.method !== 'GET' || request.url?.replace(/\?.*/, '') !== '/metrics') {
        response.writeHead(404).end('only GET /metrics is served here\n');
        return;
      }
      text().then(
        (body) => response.writeHead(200, { 'content-type': contentType }).end(body),
        (error: unknown) => response.writeHead(500).end(`the metrics cannot be read: ${String(error)}\n`),
      );
    });
    this.server.maxConnections = MAX_CONNECTIONS;
    this.server.timeout = REQUEST_MILLISECONDS;
  }

  /** @throws {MetricsError} */
  static async load(address: string, tables: Tables, isReady: () => boolean): Promise<Metrics> {
    const { Counter, Gauge, Histogram, register, Registry } = await loaded();
    const own = new Registry();
    const registers = [own];
    const gauge = (name: string, help: string, read: () => number): void => {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    };
    const calls = new Counter({
      name: 'extender_policy_calls_total',
      help: 'Calls that have ended, by verb and gRPC code.',
      labelNames: ['verb', 'code'],
      registers,
    });
    const duration = new Histogram({
      name: 'extender_policy_call_duration_seconds',
      help: 'How long calls took, by verb.',
      labelNames: ['verb'],
      buckets: BUCKETS,
      registers,
    });
    gauge('extender_policy_table_nodes', 'Nodes in all node tables.', () => tables.nodes);
    gauge('extender_policy_tables', 'Node tables of gateways.', () => tables.count);
    gauge('extender_policy_ready', 'Whether the policy can decide now.', () => Number(isReady()));
    // Those of the policy are in the default registry.
    const text = async (): Promise<string> => (await own.metrics()) + (await register.metrics());
    return new Metrics(address, text, own.contentType, ({ verb, code, milliseconds }) => {
      calls.inc({ verb, code });
      duration.observe({ verb }, milliseconds / 1_000);
    });
  }

  /** @throws {ListenError} */
  async listen(log: (line: string) => void): Promise<void> {
    const [, host = '', port] = /^\[?(.*?)\]?:(\d+)$/.exec(this.address) ?? [];
    await new Promise<void>((resolve, reject) => {
      // It stays: later errors are those of connections that cannot be accepted, and end no program.
      this.server.on('error', (error) => {
        reject(new ListenError(this.address, error, '--metrics-address'));
      });
      this.server.listen(Number(port), host, resolve);
    });
    const { port: taken } = this.server.address() as AddressInfo;
    this.address = this.address.replace(/:\d+$/, `:${String(taken)}`);
    log(`metrics are served at http://${this.address}/metrics`);
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

async function loaded(): Promise<typeof import('prom-client')> {
  try {
    return await import('prom-client');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MetricsError(
      `metrics cannot be served: ${why}; install prom-client, or leave out --metrics-address`,
    );
  }
}
