/** The program of a policy without options of its own. */

import { parseArgs } from 'node:util';

import type { Backend } from './backend.js';
import type { Policy } from './policy.js';
import { serve, type ServeOptions } from './serve.js';

/** Exit status for wrong usage. */
const BAD_USAGE = 2;

/** Exit status if the program cannot start, or ends by itself. */
const FAILED = 1;

const HELP = `Serves one policy to the extender gateway over gRPC.

  --address HOST:PORT   where to listen; port 0 takes a free one [default: 127.0.0.1:0]
  --tls-cert FILE       serves TLS with this certificate and its chain (PEM), with --tls-key
  --tls-key FILE        the private key of the certificate (PEM)
  --tls-client-ca FILE  clients must present a certificate of one of these authorities (PEM)
  --allow-unauthenticated-bind
                        serves a policy that binds also beyond loopback without --tls-client-ca: anyone who reaches
                        the address may then bind pods
  --metrics-address HOST:PORT
                        serves GET /metrics for Prometheus there, without TLS; needs the package prom-client
  --log-calls           writes a line about each call to standard error
  --help                prints this

Each option can be set by a variable instead, the flags by true or false: EXTENDER_POLICY_ADDRESS,
EXTENDER_POLICY_TLS_CERT, EXTENDER_POLICY_TLS_KEY, EXTENDER_POLICY_TLS_CLIENT_CA, EXTENDER_POLICY_METRICS_ADDRESS,
EXTENDER_POLICY_LOG_CALLS, EXTENDER_POLICY_ALLOW_UNAUTHENTICATED_BIND. The option wins; an empty variable is as none.

Prints \`listening on HOST:PORT\` when it is ready. SIGTERM drains, a second one ends at once. Files of TLS are read
again when they change.

Calls that the gateway traces are continued, and their spans sent to an OpenTelemetry collector, where the standard
variables name one: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318, OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf or
grpc), OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE (each also as
OTEL_EXPORTER_OTLP_TRACES_...), OTEL_TRACES_EXPORTER=none, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_..., OTEL_SDK_DISABLED.
`;

/** What the options of a command line mean. */
export type Command =
  { readonly serve: ServeOptions } | { readonly help: string } | { readonly mistake: string };

/**
 * Runs a policy as a program: reads the options of the command line, then does what {@link serve} does. Exit status: 0
 * stopped by a signal, 1 failed to start or ended by itself, 2 wrong usage. Call it without `await` as the last thing of
 * a module.
 */
export function run(backend: Policy | Backend | (() => Policy | Backend)): void {
  void main(backend, process.argv.slice(2)).then((code) => {
    process.exit(code);
  });
}

async function main(backend: Policy | Backend | (() => Policy | Backend), given: string[]): Promise<number> {
  const parsed = command(given);
  if ('help' in parsed) {
    process.stdout.write(parsed.help);
    return 0;
  }
  if ('mistake' in parsed) {
    process.stderr.write(`${parsed.mistake}\n`);
    return BAD_USAGE;
  }
  try {
    await serve(typeof backend === 'function' ? backend() : backend, parsed.serve);
    return 0;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return FAILED;
  }
}

const TEXT = { type: 'string' } as const;
const FLAG = { type: 'boolean' } as const;
const OPTIONS = {
  address: TEXT,
  'tls-cert': TEXT,
  'tls-key': TEXT,
  'tls-client-ca': TEXT,
  'allow-unauthenticated-bind': FLAG,
  'metrics-address': TEXT,
  'log-calls': FLAG,
  help: { ...FLAG, short: 'h' },
} as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** The value of an option, and what has set it: the option or the variable. */
interface Given {
  readonly value: string;
  readonly by: string;
}

/** Reads the options of a command line, and the variables in place of those that are not there. */
export function command(given: readonly string[], environment: Environment = process.env): Command {
  const { values, tokens } = parseArgs({ args: [...given], options: OPTIONS, strict: false, tokens: true });
  const unknown = tokens.find(
    (token) =>
      token.kind !== 'option' ||
      !Object.hasOwn(OPTIONS, token.name) ||
      (OPTIONS[token.name as keyof typeof OPTIONS].type === 'boolean' && token.value !== undefined),
  );
  if (unknown !== undefined) {
    return { mistake: `unknown option ${given[unknown.index] ?? ''}\n\n${HELP}` };
  }
  if (values.help === true) {
    return { help: HELP };
  }
  const of = (name: keyof typeof OPTIONS): Given | undefined => valueOf(name, values[name], environment);
  const address = of('address');
  const metricsAddress = of('metrics-address');
  const files = { cert: of('tls-cert'), key: of('tls-key'), clientCa: of('tls-client-ca') };
  const flags = [of('allow-unauthenticated-bind'), of('log-calls')] as const;
  const mistake =
    addressMistake(address) ?? addressMistake(metricsAddress) ?? tlsMistake(files) ?? flagMistake(flags);
  if (mistake !== undefined) {
    return { mistake };
  }
  const [cert, key, clientCa] = [files.cert?.value, files.key?.value, files.clientCa?.value];
  const [isUnauthenticated, logCalls] = flags.map((flag) => flag?.value === 'true');
  return {
    serve: {
      address: address?.value ?? '127.0.0.1:0',
      ...(isUnauthenticated && { allowUnauthenticatedBind: true }),
      ...(cert !== undefined && key !== undefined && { tls: { cert, key, ...(clientCa && { clientCa }) } }),
      ...(metricsAddress && { metricsAddress: metricsAddress.value }),
      ...(logCalls && { logCalls }),
    },
  };
}

function valueOf(
  name: keyof typeof OPTIONS,
  option: string | boolean | undefined,
  environment: Environment,
): Given | undefined {
  if (option !== undefined) {
    // An option without its value: the checks say what is expected.
    const isBare = option === true && OPTIONS[name].type === 'string';
    return { value: isBare ? '' : String(option), by: `--${name}` };
  }
  const by = `EXTENDER_POLICY_${name.toUpperCase().replaceAll('-', '_')}`;
  const value = environment[by] ?? '';
  return value === '' ? undefined : { value, by };
}

function addressMistake(given: Given | undefined): string | undefined {
  const [, host, port] = /^([^:\s]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/.exec(given?.value ?? '') ?? [];
  if (given !== undefined && (host === undefined || Number(port) > 65_535)) {
    return `invalid ${given.by} ${JSON.stringify(given.value)}; expected HOST:PORT such as 0.0.0.0:9000`;
  }
  return undefined;
}

function tlsMistake(
  files: Readonly<Record<'cert' | 'key' | 'clientCa', Given | undefined>>,
): string | undefined {
  const { cert, key, clientCa } = files;
  const empty = Object.values(files).find((given) => given?.value === '');
  if (empty !== undefined) {
    return `${empty.by} has no value; expected a file in PEM`;
  }
  const one = cert ?? key;
  if (one !== undefined && (cert === undefined || key === undefined)) {
    const missing = cert === undefined ? '--tls-cert' : '--tls-key';
    return `${one.by} is given without ${missing}; expected both files, or none`;
  }
  return clientCa !== undefined && cert === undefined
    ? `${clientCa.by} is given without --tls-cert and --tls-key; expected all three files`
    : undefined;
}

function flagMistake(flags: readonly (Given | undefined)[]): string | undefined {
  const wrong = flags.find((given) => given !== undefined && !['true', 'false'].includes(given.value));
  return wrong && `invalid ${wrong.by} ${JSON.stringify(wrong.value)}; expected true or false`;
}
