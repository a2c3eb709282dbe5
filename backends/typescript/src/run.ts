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
  --help                prints this

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
  address: { ...TEXT, default: '127.0.0.1:0' },
  'tls-cert': TEXT,
  'tls-key': TEXT,
  'tls-client-ca': TEXT,
  'allow-unauthenticated-bind': FLAG,
  help: { ...FLAG, short: 'h' },
} as const;

/** Reads the options of a command line. */
export function command(given: readonly string[]): Command {
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
  // An option without its value: the checks say what is expected.
  const text = <T>(value: T | boolean): T | string => (typeof value === 'boolean' ? '' : value);
  const address = text(values.address);
  const tls = {
    'tls-cert': text(values['tls-cert']),
    'tls-key': text(values['tls-key']),
    'tls-client-ca': text(values['tls-client-ca']),
  };
  const mistake = addressMistake(address) ?? tlsMistake(tls);
  if (mistake !== undefined) {
    return { mistake };
  }
  const { 'tls-cert': cert, 'tls-key': key, 'tls-client-ca': clientCa } = tls;
  const isUnauthenticated = values['allow-unauthenticated-bind'] === true;
  return {
    serve: {
      address,
      ...(isUnauthenticated && { allowUnauthenticatedBind: true }),
      ...(cert !== undefined && key !== undefined && { tls: { cert, key, ...(clientCa && { clientCa }) } }),
    },
  };
}

function addressMistake(address: string): string | undefined {
  const [, host, port] = /^([^:\s]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/.exec(address) ?? [];
  if (host === undefined || Number(port) > 65_535) {
    return `invalid --address ${JSON.stringify(address)}; expected HOST:PORT such as 0.0.0.0:9000`;
  }
  return undefined;
}

function tlsMistake(
  given: Readonly<Record<'tls-cert' | 'tls-key' | 'tls-client-ca', string | undefined>>,
): string | undefined {
  const { 'tls-cert': cert, 'tls-key': key, 'tls-client-ca': ca } = given;
  const empty = Object.entries(given).find(([, value]) => value === '');
  if (empty !== undefined) {
    return `--${empty[0]} has no value; expected a file in PEM`;
  }
  if ((cert === undefined) !== (key === undefined)) {
    const [given, missing] = cert === undefined ? ['--tls-key', '--tls-cert'] : ['--tls-cert', '--tls-key'];
    return `${given} is given without ${missing}; expected both files, or none`;
  }
  return ca !== undefined && cert === undefined
    ? '--tls-client-ca is given without --tls-cert and --tls-key; expected all three files'
    : undefined;
}
