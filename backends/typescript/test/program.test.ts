import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { fileURLToPath } from 'node:url';

import { ChannelCredentials, loadPackageDefinition, type Client, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { protoPath } from 'grpc-health-check';

import { GetInfoRequest } from '../src/gen/extender/policy/v1beta1/info.js';
import { PolicyServiceClient } from '../src/gen/extender/policy/v1beta1/policy.js';
import { Reads } from '../src/index.js';
import { command } from '../src/run.js';
import { Authority } from './certificates.js';
import { call } from './support.js';

/** A program that runs, with what it has written. */
interface Program {
  readonly child: ChildProcess;
  readonly written: { out: string; err: string };
}

function example(name: string): string {
  return fileURLToPath(new URL(`../examples/${name}/main.js`, import.meta.url));
}

function started(path: string, ...options: string[]): Program {
  return startedWith({}, path, ...options);
}

function startedWith(
  variables: Readonly<Record<string, string>>,
  path: string,
  ...options: string[]
): Program {
  const child = spawn(process.execPath, [path, ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...variables },
  });
  const written = { out: '', err: '' };
  child.stdout.on('data', (text: Buffer) => (written.out += text.toString()));
  child.stderr.on('data', (text: Buffer) => (written.err += text.toString()));
  after(() => child.kill('SIGKILL'));
  return { child, written };
}

async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const limit = Date.now() + 15_000;
  while (!(await isTrue())) {
    assert.ok(Date.now() < limit, what);
    await setTimeout(10);
  }
}

/** The address, when the program is ready. */
async function address({ child, written }: Program): Promise<string> {
  await until('the program is ready', () => written.out.includes('\n') || child.exitCode !== null);
  const [, found] = /^listening on (127\.0\.0\.1:\d+)\n$/.exec(written.out) ?? [];
  assert.ok(found !== undefined, JSON.stringify(written));
  return found;
}

async function exitStatus({ child }: Program): Promise<number | null> {
  if (child.exitCode === null) {
    await once(child, 'exit');
  }
  return child.exitCode;
}

/** The name of the policy, or why it cannot be asked. */
async function policyName(at: string, credentials = ChannelCredentials.createInsecure()): Promise<string> {
  const client = new PolicyServiceClient(at, credentials);
  try {
    return await new Promise((resolve, reject) => {
      const deadline = new Date(Date.now() + 2_000);
      client.waitForReady(deadline, (error) => {
        if (error !== undefined) {
          reject(error);
          return;
        }
        client.getInfo(GetInfoRequest.create(), (failed, info) => {
          if (failed === null) {
            resolve(info.name);
          } else {
            reject(failed);
          }
        });
      });
    });
  } finally {
    client.close();
  }
}

/** The client of another service. */
function clientOf(definition: string, service: string, at: string): Client {
  const loaded = loadPackageDefinition(loadSync(definition));
  const [constructor] = service
    .split('.')
    .reduce<unknown[]>(([found], part) => [(found as Record<string, unknown>)[part]], [loaded]);
  return new (constructor as new (at: string, credentials: ChannelCredentials) => Client)(
    at,
    ChannelCredentials.createInsecure(),
  );
}

test('a program says where it listens, answers, and ends with a signal', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const program = started(example('no-arm'));
    const at = await address(program);
    assert.equal(await policyName(at), 'no-arm');
    program.child.kill(signal);
    assert.equal(await exitStatus(program), 0);
    assert.deepEqual(program.written, { out: `listening on ${at}\n`, err: '' });
  }
});

test('wrong usage is named, with what is expected', async () => {
  const cases: [string[], string][] = [
    [['--adress', 'x'], 'unknown option --adress'],
    [['now'], 'unknown option now'],
    [['--address'], 'invalid --address ""; expected HOST:PORT such as 0.0.0.0:9000'],
    [['--address=localhost'], 'invalid --address "localhost"; expected HOST:PORT'],
    [['--address', '127.0.0.1:70000'], 'invalid --address "127.0.0.1:70000"; expected HOST:PORT'],
    [['--tls-cert', 'a'], '--tls-cert is given without --tls-key; expected both files, or none'],
    [['--tls-key', 'a'], '--tls-key is given without --tls-cert; expected both files, or none'],
    [
      ['--tls-client-ca', 'a'],
      '--tls-client-ca is given without --tls-cert and --tls-key; expected all three files',
    ],
    [['--tls-cert', 'a', '--tls-key'], '--tls-key has no value; expected a file in PEM'],
    [['--metrics-address', 'x'], 'invalid --metrics-address "x"; expected HOST:PORT'],
  ];
  for (const [options, expected] of cases) {
    const program = started(example('no-arm'), ...options);
    assert.equal(await exitStatus(program), 2, options.join(' '));
    assert.ok(program.written.err.startsWith(expected), program.written.err);
    assert.equal(program.written.out, '');
  }
  const help = started(example('no-arm'), '--help');
  assert.equal(await exitStatus(help), 0);
  assert.match(help.written.out, /--tls-client-ca FILE[\s\S]*OTEL_EXPORTER_OTLP_ENDPOINT/);
});

test('a variable stands for an option that is not given, and a wrong one is named', async () => {
  const tls = { cert: 'c', key: 'k', clientCa: 'a' };
  const all = {
    ADDRESS: '0.0.0.0:9000',
    TLS_CERT: 'c',
    TLS_KEY: 'k',
    TLS_CLIENT_CA: 'a',
    ALLOW_UNAUTHENTICATED_BIND: 'true',
    METRICS_ADDRESS: '[::1]:9001',
    LOG_CALLS: 'true',
  };
  const flags = { allowUnauthenticatedBind: true, logCalls: true };
  const ofAll = { address: '0.0.0.0:9000', tls, metricsAddress: '[::1]:9001', ...flags };
  const wrong = Object.fromEntries(Object.keys(all).map((name) => [name, 'wrong value']));
  const options =
    '--address a:1 --tls-cert c --tls-key k --tls-client-ca a --metrics-address m:2 --log-calls --allow-unauthenticated-bind';
  const address = '127.0.0.1:0';
  const expectedAddress = 'expected HOST:PORT such as 0.0.0.0:9000';
  const cases: [Record<string, string>, options: string, served: object | string][] = [
    [{ ADDRESS: '', LOG_CALLS: '', TLS_CERT: '' }, '', { address }],
    [all, '', ofAll],
    [wrong, options, { address: 'a:1', tls, metricsAddress: 'm:2', ...flags }],
    [{ LOG_CALLS: 'false', ALLOW_UNAUTHENTICATED_BIND: 'false' }, '', { address }],
    [{ LOG_CALLS: 'false' }, '--log-calls', { address, logCalls: true }],
    [{ TLS_KEY: 'k' }, '--tls-cert c', { address, tls: { cert: 'c', key: 'k' } }],
    [{ ADDRESS: 'x' }, '', `invalid EXTENDER_POLICY_ADDRESS "x"; ${expectedAddress}`],
    [{ METRICS_ADDRESS: ':1' }, '', `invalid EXTENDER_POLICY_METRICS_ADDRESS ":1"; ${expectedAddress}`],
    [{ LOG_CALLS: 'yes' }, '', 'invalid EXTENDER_POLICY_LOG_CALLS "yes"; expected true or false'],
    [
      { TLS_CERT: 'c' },
      '',
      'EXTENDER_POLICY_TLS_CERT is given without --tls-key; expected both files, or none',
    ],
  ];
  const help = command(['--help'], {});
  for (const [variables, given, expected] of cases) {
    const environment = Object.fromEntries(
      Object.entries(variables).map(([name, value]) => [`EXTENDER_POLICY_${name}`, value]),
    );
    assert.deepEqual(
      command(given === '' ? [] : given.split(' '), environment),
      typeof expected === 'string' ? { mistake: expected } : { serve: expected },
    );
  }
  for (const name of Object.keys(all)) {
    assert.ok('help' in help && help.help.includes(`EXTENDER_POLICY_${name}`), name);
  }
  const program = startedWith({ EXTENDER_POLICY_LOG_CALLS: 'yes' }, example('no-arm'));
  assert.equal(await exitStatus(program), 2);
  assert.match(program.written.err, /^invalid EXTENDER_POLICY_LOG_CALLS /);
});

test('the package for metrics is loaded only where they are served, and named if it lacks', async () => {
  const hook = `export function resolve(name, context, next) {
    if (name === 'prom-client') { throw new Error('no such package'); }
    return next(name, context);
  }`;
  const data = (module: string): string => `data:text/javascript,${encodeURIComponent(module)}`;
  const register = `import { register } from 'node:module'; register(${JSON.stringify(data(hook))});`;
  const without = { NODE_OPTIONS: `--import=${data(register)}` };
  await address(startedWith(without, example('no-arm')));
  const program = startedWith(without, example('no-arm'), '--metrics-address', '127.0.0.1:0');
  assert.equal(await exitStatus(program), 1);
  assert.equal(
    program.written.err,
    'metrics cannot be served: no such package; install prom-client, or leave out --metrics-address\n',
  );
});

test('what prevents the start is named', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  after(() => taken.close());
  const at = `127.0.0.1:${String((taken.address() as AddressInfo).port)}`;
  const program = started(example('no-arm'), '--address', at);
  assert.equal(await exitStatus(program), 1);
  assert.match(
    program.written.err,
    new RegExp(
      `^cannot listen on ${at}: .*EADDRINUSE.*; set another --address, or stop the process that uses it\n$`,
    ),
  );
  const unreadable = started(example('no-arm'), '--tls-cert', '/none.crt', '--tls-key', '/none.key');
  assert.equal(await exitStatus(unreadable), 1);
  assert.match(
    unreadable.written.err,
    /^cannot read the file \/none\.crt of --tls-cert: ENOENT.*; make it readable, or name another file\n$/,
  );
});

test('calls in progress finish, and a second signal ends at once', async () => {
  const slow = fileURLToPath(new URL('slow-binder.js', import.meta.url));
  for (const isImpatient of [false, true]) {
    const program = started(slow);
    const client = new PolicyServiceClient(await address(program), ChannelCredentials.createInsecure());
    after(() => {
      client.close();
    });
    const bound = new Promise<string>((resolve) => {
      client.bind(
        { call: call(new Reads()), namespace: 'shop', name: 'p', uid: 'u', node: 'n', pod: undefined },
        (error, answer) => {
          resolve(error === null ? String(answer.outcome) : String(error.code));
        },
      );
    });
    await until('the bind has begun', () => program.written.err.includes('binding'));
    program.child.kill('SIGTERM');
    await setTimeout(50);
    if (isImpatient) {
      program.child.kill('SIGTERM');
    }
    const answer = await bound;
    // Outcome 1 is bound; otherwise the connection is gone.
    assert.equal(answer === '1', !isImpatient, answer);
    assert.equal(await exitStatus(program), 0);
  }
});

test('health is served for the process and the service, and watches end with it', async () => {
  const program = started(example('no-arm'));
  const at = await address(program);
  const client = clientOf(protoPath, 'grpc.health.v1.Health', at) as Client &
    Record<
      string,
      (request: object, callback: (error: ServiceError | null, answer: { status: number }) => void) => void
    >;
  const check = (service: string): Promise<number> =>
    new Promise((resolve) => {
      client['Check']?.({ service }, (error, answer) => {
        resolve(error?.code ?? answer.status);
      });
    });
  const serving = 1;
  const notFound = 5;
  assert.equal(await check(''), serving);
  assert.equal(await check('extender.policy.v1beta1.PolicyService'), serving);
  assert.equal(await check('else'), notFound);
  const seen: number[] = [];
  const watch = (client as unknown as { Watch: (request: object) => NodeJS.ReadableStream }).Watch({
    service: '',
  });
  watch.on('data', ({ status }: { status: number }) => seen.push(status)).on('error', () => undefined);
  await until('the watch has begun', () => seen.length > 0);
  const began = Date.now();
  program.child.kill('SIGTERM');
  assert.equal(await exitStatus(program), 0);
  assert.deepEqual(seen, [1, 2]);
  assert.ok(Date.now() - began < 5_000);
  client.close();
});

test('streams have a window of a mebibyte', async () => {
  const at = await address(started(example('no-arm')));
  const session = connect(`http://${at}`);
  await once(session, 'remoteSettings');
  assert.equal(session.remoteSettings.initialWindowSize, 1 << 20);
  session.close();
});

/** The name in the certificate that the server presents. */
async function presented(at: string, ca: Buffer): Promise<string> {
  const [host, port] = at.split(':');
  const socket = connectTls({ host, port: Number(port), ca, ALPNProtocols: ['h2'] });
  try {
    await once(socket, 'secureConnect');
    return String(socket.getPeerCertificate().subject.CN);
  } finally {
    socket.destroy();
  }
}

test('TLS serves a rotated certificate, and a broken one leaves the earlier', async () => {
  const authority = new Authority('test');
  const files = authority.issue('served');
  const one = authority.issue('one');
  const two = authority.issue('two');
  const put = (from: { cert: string; key: string }): void => {
    copyFileSync(from.cert, files.cert);
    copyFileSync(from.key, files.key);
  };
  put(one);
  const program = started(example('no-arm'), '--tls-cert', files.cert, '--tls-key', files.key);
  const at = await address(program);
  assert.equal(await policyName(at, ChannelCredentials.createSsl(authority.pem())), 'no-arm');
  assert.equal(await presented(at, authority.pem()), 'one');
  put(two);
  await until('the new certificate is served', async () => (await presented(at, authority.pem())) === 'two');
  writeFileSync(files.cert, 'broken');
  await until('a line is logged', () => program.written.err.includes('stays in use'));
  await setTimeout(2_100);
  assert.equal(program.written.err.split('\n').length, 2, program.written.err);
  assert.ok(
    program.written.err.includes(`${files.cert} of --tls-cert is no certificate`),
    program.written.err,
  );
  assert.equal(await presented(at, authority.pem()), 'two');
  // A certificate with another one's key.
  put(one);
  writeFileSync(files.key, readFileSync(two.key));
  await until('it is logged', () =>
    program.written.err.includes('are no pair of certificate and private key'),
  );
  put(one);
  await until('the next certificate is served', async () => (await presented(at, authority.pem())) === 'one');
  await assert.rejects(policyName(at, ChannelCredentials.createInsecure()));
});

test('with an authority of clients, only its clients are answered, also after it changes', async () => {
  const servers = new Authority('servers');
  const files = servers.issue('server');
  const [ours, theirs] = [new Authority('ours'), new Authority('theirs')];
  const ca = join(servers.folder, 'clients.crt');
  copyFileSync(ours.certificate, ca);
  const options = ['--tls-cert', files.cert, '--tls-key', files.key, '--tls-client-ca', ca];
  const at = await address(started(example('no-arm'), ...options));
  const as = (authority: Authority): ChannelCredentials => {
    const { cert, key } = authority.issue('client');
    return ChannelCredentials.createSsl(servers.pem(), readFileSync(key), readFileSync(cert));
  };
  const [we, they] = [as(ours), as(theirs)];
  const isAnswered = async (credentials: ChannelCredentials): Promise<boolean> =>
    policyName(at, credentials).then(
      () => true,
      () => false,
    );
  assert.deepEqual([await isAnswered(we), await isAnswered(they)], [true, false]);
  assert.equal(await isAnswered(ChannelCredentials.createSsl(servers.pem())), false);
  copyFileSync(theirs.certificate, ca);
  await until('the new authority counts', () => isAnswered(they));
  assert.equal(await isAnswered(we), false);
});
