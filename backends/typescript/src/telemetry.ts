/**
 * Traces calls that the gateway traces, and sends a span of each to a collector. The packages of OpenTelemetry are
 * optional: they are loaded only if a variable names an endpoint.
 */

import type { Context, Span, TracerProvider } from '@opentelemetry/api';
import { status, type Metadata } from '@grpc/grpc-js';

import { HOOK_SERVICE } from './declaration.js';
import { isHook, type VerbName } from './declaration/names.js';
import type { CallError } from './errors.js';
import { inSentence } from './text.js';

/** How long the last spans may take when the process ends: Kubernetes allows 30 s, including draining. */
const FLUSH_MILLISECONDS = 5_000;

const SERVICE = 'extender.policy.v1beta1.PolicyService';

/** The packages that are needed to send spans. */
const PACKAGES =
  '@opentelemetry/api @opentelemetry/sdk-trace-node @opentelemetry/resources @opentelemetry/exporter-trace-otlp-proto';

/** A `TracerProvider` of `@opentelemetry/api`, named here so that the types need no optional package. */
export interface SpanSource {
  /** The source of spans for a library. */
  getTracer(name: string, version?: string): object;
}

/** Where spans go, and the name and version of the program. */
export interface TelemetryOptions {
  /** The variables that configure the export. Default: those of the process. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** `service.name`, unless a variable sets it. Default: the policy's name, if it is known before args come. */
  readonly service?: string;
  /**
   * A tracer provider that the program has set up itself, instead of the variables. It must be registered with a context
   * manager if requests that the policy makes are to carry on the trace; the program shuts it down.
   */
  readonly provider?: SpanSource;
}

/** Spans are enabled, and cannot be sent. */
export class TelemetryError extends Error {
  override readonly name = 'TelemetryError';
}

/** A traced call. */
export interface Followed {
  /** Runs work with the call's span as the current one. */
  run<T>(work: () => T): T;
  /** Sets an attribute of the span. */
  note(key: string, value: string | number): void;
  /** Ends the span. */
  end(code: status, message: string): void;
}

/** A call that is not traced. */
export const UNTRACED: Followed = {
  run: (work) => work(),
  note: () => undefined,
  end: () => undefined,
};

/** Traces calls, if spans are sent. */
export class Tracer {
  /** Sends no spans. */
  static readonly none = new Tracer(undefined, undefined, () => Promise.resolve());

  private constructor(
    private readonly api: typeof import('@opentelemetry/api') | undefined,
    private readonly provider: TracerProvider | undefined,
    /** Sends the queued spans, for at most 5 s. */
    readonly end: () => Promise<void>,
  ) {}

  /**
   * As the options say; without an endpoint nothing is set up.
   *
   * @throws {TelemetryError}
   */
  static async start(options: TelemetryOptions, service: { name: string; version: string }): Promise<Tracer> {
    const environment = options.environment ?? process.env;
    if (options.provider !== undefined) {
      const api = await loaded(() => import('@opentelemetry/api'));
      return new Tracer(api, options.provider as TracerProvider, () => Promise.resolve());
    }
    return isWanted(environment)
      ? Tracer.sending(environment, { ...service, name: options.service ?? service.name })
      : Tracer.none;
  }

  private static async sending(
    environment: Environment,
    service: { name: string; version: string },
  ): Promise<Tracer> {
    const [api, sdk, resources] = await loaded(() =>
      Promise.all([
        import('@opentelemetry/api'),
        import('@opentelemetry/sdk-trace-node'),
        import('@opentelemetry/resources'),
      ]),
    );
    const named = {
      'service.name': service.name,
      ...(service.version === '' ? {} : { 'service.version': service.version }),
    };
    const detected = resources.detectResources({ detectors: [resources.envDetector] });
    const resource = resources
      .defaultResource()
      .merge(resources.resourceFromAttributes(named))
      .merge(detected);
    const provider = new sdk.NodeTracerProvider({
      resource,
      spanProcessors: [new sdk.BatchSpanProcessor(await exporter(environment))],
    });
    provider.register();
    return new Tracer(api, provider, async () => {
      const ended = provider.shutdown().catch((error: unknown) => {
        process.stderr.write(`the last spans were not sent: ${String(error)}\n`);
      });
      await Promise.race([ended, timeout(FLUSH_MILLISECONDS)]);
    });
  }

  /** The span of a traced call. For others only one header is read. */
  follow(metadata: Metadata, verb: VerbName | 'Change'): Followed {
    const { api, provider } = this;
    if (api === undefined || provider === undefined) {
      return UNTRACED;
    }
    const parent = remoteParent(api, metadata);
    if (parent === undefined) {
      return UNTRACED;
    }
    const hook = verb !== 'Change' && isHook(verb) ? { 'extender.hook': inSentence(verb) } : undefined;
    const name = hook === undefined && verb !== 'Change' ? `${SERVICE}/${verb}` : `${HOOK_SERVICE}/Change`;
    const attributes = { 'rpc.system.name': 'grpc', 'rpc.method': name, ...hook };
    const span = provider
      .getTracer('@extender-gateway/policy')
      .startSpan(name, { kind: api.SpanKind.SERVER, attributes }, parent);
    return new FollowedCall(api, span, api.trace.setSpan(parent, span));
  }
}

class FollowedCall implements Followed {
  constructor(
    private readonly api: typeof import('@opentelemetry/api'),
    private readonly span: Span,
    private readonly context: Context,
  ) {}

  run<T>(work: () => T): T {
    return this.api.context.with(this.context, work);
  }

  note(key: string, value: string | number): void {
    this.span.setAttribute(key, value);
  }

  end(code: status, message: string): void {
    const name = status[code];
    this.span.setAttribute('rpc.response.status_code', name);
    // A gateway that cancels because it no longer needs the answer is not an error.
    if (code !== status.OK && code !== status.CANCELLED) {
      this.span.setAttribute('error.type', name);
      this.span.setStatus({ code: this.api.SpanStatusCode.ERROR, message: `${name}: ${message}` });
    }
    this.span.end();
  }
}

/** The caller's span, if it is sampled. A `traceparent` that cannot be parsed is as none. */
function remoteParent(api: typeof import('@opentelemetry/api'), metadata: Metadata): Context | undefined {
  const [traceparent] = metadata.get('traceparent');
  const parsed = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(
    String(traceparent ?? ''),
  );
  const [, traceId = '', spanId = '', flags = '00', rest = ''] = parsed ?? [];
  const isVersion0 = String(traceparent).startsWith('00');
  const isSampled = (Number.parseInt(flags, 16) & api.TraceFlags.SAMPLED) !== 0;
  if (!isSampled || (isVersion0 && rest !== '')) {
    return undefined;
  }
  const context = {
    traceId,
    spanId,
    traceFlags: api.TraceFlags.SAMPLED,
    isRemote: true,
    traceState: api.createTraceState(metadata.get('tracestate').map(String).join(',')),
  };
  return api.isSpanContextValid(context) ? api.trace.setSpanContext(api.ROOT_CONTEXT, context) : undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The value of a variable for traces, or of the one for all signals. */
function variable(environment: Environment, name: string): string | undefined {
  const values = [
    environment[`OTEL_EXPORTER_OTLP_TRACES_${name}`],
    environment[`OTEL_EXPORTER_OTLP_${name}`],
  ];
  return values.map((value) => value?.trim()).find((value) => value !== undefined && value !== '');
}

function isWanted(environment: Environment): boolean {
  const exporters = environment['OTEL_TRACES_EXPORTER']?.trim().toLowerCase() ?? '';
  if (environment['OTEL_SDK_DISABLED']?.trim().toLowerCase() === 'true' || exporters === 'none') {
    return false;
  }
  if (exporters !== '' && exporters !== 'otlp') {
    throw new TelemetryError(`OTEL_TRACES_EXPORTER is "${exporters}"; expected otlp or none`);
  }
  return variable(environment, 'ENDPOINT') !== undefined;
}

async function exporter(
  environment: Environment,
): Promise<import('@opentelemetry/sdk-trace-node').SpanExporter> {
  const protocol = variable(environment, 'PROTOCOL') ?? 'http/protobuf';
  switch (protocol) {
    case 'grpc': {
      const { OTLPTraceExporter } = await loaded(() => import('@opentelemetry/exporter-trace-otlp-grpc'));
      return new OTLPTraceExporter();
    }
    case 'http/protobuf': {
      const { OTLPTraceExporter } = await loaded(() => import('@opentelemetry/exporter-trace-otlp-proto'));
      return new OTLPTraceExporter();
    }
    default:
      throw new TelemetryError(
        `OTEL_EXPORTER_OTLP_PROTOCOL is "${protocol}"; expected grpc or http/protobuf`,
      );
  }
}

/** The packages, if they are installed. */
async function loaded<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new TelemetryError(
      `spans cannot be sent: ${why}; install ${PACKAGES} (with OTEL_EXPORTER_OTLP_PROTOCOL=grpc also @opentelemetry/exporter-trace-otlp-grpc), or unset OTEL_EXPORTER_OTLP_ENDPOINT`,
    );
  }
}

async function timeout(milliseconds: number): Promise<void> {
  await new Promise<void>((resolve) => {
    setTimeout(resolve, milliseconds).unref();
  });
}

/** The code and message with which a call ends that threw this. */
export function outcome(error: CallError | undefined): { code: status; message: string } {
  return error === undefined
    ? { code: status.OK, message: '' }
    : { code: error.code, message: error.message };
}
