/** A backend on a socket: the contract's services, health and reflection, from binding to draining. */

import type { Http2Server, ServerHttp2Session } from 'node:http2';

import { logVerbosity, Server, ServerCredentials, setLogVerbosity } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer, loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { protoPath } from 'grpc-health-check';

import { Backend } from './backend.js';
import { BEGINNING_MILLISECONDS, follow, mostConnections } from './connections.js';
import { type Observer, callLine, Calls } from './calls.js';
import { MAX_MESSAGE_BYTES } from './declaration.js';
import { ListenError } from './errors.js';
import { DESCRIPTORS } from './gen/descriptors.js';
import { Health } from './health.js';
import { Metrics } from './metrics.js';
import type { Policy } from './policy.js';
import { Services, type Log } from './service.js';
import { Tables } from './table.js';
import { Tracer, type TelemetryOptions } from './telemetry.js';
import { RotatingCredentials, type TlsFiles } from './tls.js';

/**
 * HTTP/2 windows of 1 MiB: with the default of 64 KiB a request of thousands of nodes waits for many small
 * acknowledgements.
 */
const WINDOW_BYTES = 1 << 20;

/** A gateway whose machine is gone no longer responds: then the connection is closed, and its tables are dropped. */
const KEEPALIVE_MILLISECONDS = 60_000;
const KEEPALIVE_TIMEOUT_MILLISECONDS = 20_000;

/** How long calls in progress may take after the first signal. */
const DRAIN_MILLISECONDS = 10_000;

/** Options of {@link serve}. */
export interface ServeOptions {
  /** Where to listen, as HOST:PORT; port 0 takes a free one. Default: 127.0.0.1:0. */
  readonly address?: string;
  /** Serves TLS with these files, which are read again when they change. Default: none. */
  readonly tls?: TlsFiles;
  /**
   * Serves a policy that binds also beyond loopback to clients without a certificate: whoever reaches the address may then
   * bind pods. Default: false.
   */
  readonly allowUnauthenticatedBind?: boolean;
  /** How long calls in progress may take after the first signal, before they are canceled. Default: 10 s. */
  readonly drainMilliseconds?: number;
  /** Where spans of traced calls go. Default: as the `OTEL_*` variables of the process say. */
  readonly telemetry?: TelemetryOptions;
  /**
   * Where `GET /metrics` is served in Prometheus' text format, as HOST:PORT; needs the package prom-client. Default: nowhere.
   */
  readonly metricsAddress?: string;
  /** Writes a line about each call to the log. Default: false. */
  readonly logCalls?: boolean;
  /** Gets lines for operators. Default: standard error. */
  readonly log?: Log;
}

/**
 * Serves until a stop signal: binds, prints one line `listening on ADDRESS` on standard output, answers, and on SIGTERM
 * or SIGINT drains.
 *
 * The first signal: health reports NOT_SERVING, no new calls are accepted, calls in progress are finished for at most
 * {@link ServeOptions.drainMilliseconds}, and queued spans are sent for at most 5 s. A second signal ends the process at
 * once.
 *
 * @throws {DeclarationError} {@link ExposedError} {@link ListenError} {@link TlsError} {@link TelemetryError}
 * {@link MetricsError}
 */
export async function serve(backend: Policy | Backend, options: ServeOptions = {}): Promise<void> {
  const listening = await listen(backend, options);
  const stopped = new Promise<void>((resolve) => {
    const first = (): void => {
      const second = (): void => {
        process.exit(0);
      };
      process.off('SIGTERM', first).off('SIGINT', first).on('SIGTERM', second).on('SIGINT', second);
      resolve();
    };
    process.on('SIGTERM', first).on('SIGINT', first);
  });
  process.stdout.write(`listening on ${listening.address}\n`);
  await stopped;
  await listening.stop();
}

/**
 * Listens and answers. For tests and for programs with a life cycle of their own; {@link serve} is enough for the
 * others.
 *
 * @throws {DeclarationError} {@link ExposedError} {@link ListenError} {@link TlsError} {@link TelemetryError}
 * {@link MetricsError}
 */
export async function listen(backend: Policy | Backend, options: ServeOptions = {}): Promise<Listening> {
  const served = permitted(Backend.of(backend), options);
  const log = options.log ?? toStandardError;
  const tracer = await Tracer.start(options.telemetry ?? {}, nameAndVersion(served));
  const credentials = options.tls && RotatingCredentials.read(options.tls, log);
  const server = new Server({
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
    'grpc.keepalive_time_ms': KEEPALIVE_MILLISECONDS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MILLISECONDS,
    'grpc.enable_channelz': 0,
  });
  const health = new Health();
  const tables = new Tables();
  const { metricsAddress } = options;
  const isReady = (): boolean => health.isServing && served.isReady;
  const metrics =
    metricsAddress === undefined ? undefined : await Metrics.load(metricsAddress, tables, isReady);
  const observers: Observer[] = metrics === undefined ? [] : [metrics.count];
  if (options.logCalls === true) {
    observers.push((call) => {
      log(callLine(call));
    });
  }
  const services = new Services(served, tables, new Calls(tracer, observers), log);
  services.addTo(server);
  health.addTo(server);
  reflection().addToServer(server);
  const requested = options.address ?? '127.0.0.1:0';
  const port = await bound(server, requested, credentials ?? ServerCredentials.createInsecure());
  const address = requested.replace(/:\d+$/, `:${String(port)}`);
  await metrics?.listen(log).catch((error: unknown) => {
    server.forceShutdown();
    throw error;
  });
  return new Listening({
    address,
    metrics,
    server,
    services,
    health,
    tracer,
    credentials,
    drain: options.drainMilliseconds,
  });
}

/** Other machines reach the address without a certificate, and the policy would bind pods for them. */
export class ExposedError extends Error {
  override readonly name = 'ExposedError';
}

/** The backend as it may be served at its address. */
function permitted(backend: Backend, options: ServeOptions): Backend {
  const address = options.address ?? '127.0.0.1:0';
  const isLocal = /^(localhost|127(\.\d+){3}|\[::1\]):/.test(address);
  if (isLocal || options.tls?.clientCa !== undefined || options.allowUnauthenticatedBind === true) {
    return backend;
  }
  const refusal =
    `${address} is reached from other machines without a client certificate, and callers of this policy can bind pods ` +
    'with its permissions; set --tls-client-ca or a loopback --address, or --allow-unauthenticated-bind';
  if (backend.fixed?.newest.declaration.of('Bind') !== undefined) {
    throw new ExposedError(refusal);
  }
  return backend.exposed(refusal);
}

interface Parts {
  readonly address: string;
  readonly metrics: Metrics | undefined;
  readonly server: Server;
  readonly services: Services;
  readonly health: Health;
  readonly tracer: Tracer;
  readonly credentials: RotatingCredentials | undefined;
  readonly drain: number | undefined;
}

/** A backend that answers. */
export class Listening {
  /** Where it listens, with the port that was taken. */
  readonly address: string;
  /** Where metrics are served, with the port that was taken; undefined if they are not. */
  readonly metricsAddress: string | undefined;

  /** @internal */
  constructor(private readonly parts: Parts) {
    this.address = parts.address;
    this.metricsAddress = parts.metrics?.address;
  }

  /** Drains: finishes calls in progress and sends queued spans. */
  async stop(): Promise<void> {
    const { server, services, health, tracer, credentials, metrics, drain = DRAIN_MILLISECONDS } = this.parts;
    health.stop();
    services.stop();
    await new Promise<void>((resolve) => {
      const limit = setTimeout(() => {
        server.forceShutdown();
        resolve();
      }, drain);
      server.tryShutdown(() => {
        clearTimeout(limit);
        resolve();
      });
    });
    credentials?.close();
    metrics?.close();
    await tracer.end();
  }
}

async function bound(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  widenWindows(server);
  const isVerbositySet = ['GRPC_NODE_VERBOSITY', 'GRPC_VERBOSITY'].some(
    (name) => process.env[name] !== undefined,
  );
  if (!isVerbositySet) {
    // The error is reported once, with what to do.
    setLogVerbosity(logVerbosity.NONE);
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(address, credentials, (error, taken) => {
      if (error === null) {
        resolve(taken);
      } else {
        reject(new ListenError(address, error));
      }
    });
  });
  if (!isVerbositySet) {
    setLogVerbosity(logVerbosity.ERROR);
  }
  limitConnections(server);
  return port;
}

/** grpc-js has no option for the window of a server's streams: the settings of its HTTP/2 servers are not public. */
function widenWindows(server: Server): void {
  const options: unknown = Reflect.get(server, 'commonServerOptions');
  if (options instanceof Object) {
    Object.assign(options, {
      settings: { initialWindowSize: WINDOW_BYTES },
      handshakeTimeout: BEGINNING_MILLISECONDS,
    });
  }
}

/** The same for the window and the number of connections. */
function limitConnections(server: Server): void {
  const servers: unknown = Reflect.get(server, 'http2Servers');
  if (servers instanceof Map) {
    for (const http2 of servers.keys() as MapIterator<Http2Server>) {
      http2.maxConnections = mostConnections();
      follow(http2);
      http2.on('session', (session: ServerHttp2Session) => {
        session.setLocalWindowSize(WINDOW_BYTES);
      });
    }
  }
}

function reflection(): ReflectionService {
  const policy = loadFileDescriptorSetFromBuffer(Buffer.from(DESCRIPTORS, 'base64'));
  return new ReflectionService({ ...policy, ...loadSync(protoPath) });
}

/** A backend built from args has no name before its first call, and may have several then. */
function nameAndVersion({ fixed }: Backend): { name: string; version: string } {
  const info = fixed?.newest.declaration.response;
  return { name: info?.name ?? 'extender-policy', version: info?.version ?? '' };
}

function toStandardError(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}
