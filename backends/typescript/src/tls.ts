/** TLS with files that are read again when they change: certificates are rotated while the program runs. */

import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureContextOptions } from 'node:tls';

import { ServerCredentials } from '@grpc/grpc-js';

/** The files of a server's TLS. */
export interface TlsFiles {
  /** The certificate and its chain, as PEM. */
  readonly cert: string;
  /** Its private key, as PEM. */
  readonly key: string;
  /** The certificates of the authorities of clients, as PEM: clients must present a certificate of one of them. */
  readonly clientCa?: string;
}

/** How often the files are looked at. */
const INTERVAL_MILLISECONDS = 1_000;

/** A file cannot be used. */
export class TlsError extends Error {
  override readonly name = 'TlsError';
}

/** Credentials of a server, which new connections get in their latest version. */
export class RotatingCredentials extends ServerCredentials {
  private readonly timer: NodeJS.Timeout;

  private constructor(
    private readonly files: TlsFiles,
    private contents: Contents,
    log: (line: string) => void,
  ) {
    const isMutual = files.clientCa !== undefined;
    super(
      { requestCert: isMutual, rejectUnauthorized: isMutual, minVersion: 'TLSv1.2' },
      contextOf(contents),
    );
    let problem = '';
    this.timer = setInterval(() => {
      const latest = this.reload();
      if (latest !== problem && latest !== '') {
        log(`${latest}; the earlier certificate stays in use`);
      }
      problem = latest;
    }, INTERVAL_MILLISECONDS);
    this.timer.unref();
  }

  /**
   * Reads the files.
   *
   * @throws {TlsError}
   */
  static read(files: TlsFiles, log: (line: string) => void): RotatingCredentials {
    const contents = read(files);
    check(files, contents);
    return new RotatingCredentials(files, contents, log);
  }

  /** The files are no longer looked at. */
  close(): void {
    clearInterval(this.timer);
  }

  /** Takes over changed files that are valid. Returns what is wrong with others. */
  private reload(): string {
    try {
      const contents = read(this.files);
      if (isEqual(contents, this.contents)) {
        return '';
      }
      check(this.files, contents);
      this.contents = contents;
      // All at once: a certificate never goes with another one's key.
      this.updateSecureContextOptions(contextOf(contents));
      return '';
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

interface Contents {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer | undefined;
}

function read({ cert, key, clientCa }: TlsFiles): Contents {
  return {
    cert: readFile('--tls-cert', cert),
    key: readFile('--tls-key', key),
    ca: clientCa === undefined ? undefined : readFile('--tls-client-ca', clientCa),
  };
}

function readFile(option: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new TlsError(
      `cannot read the file ${path} of ${option}: ${why}; make it readable, or name another file`,
    );
  }
}

function check(files: TlsFiles, { cert, key, ca }: Contents): void {
  attempt(`the file ${files.cert} of --tls-cert is no certificate`, { cert });
  attempt(`the file ${files.key} of --tls-key is no private key`, { key });
  attempt(`the files ${files.cert} and ${files.key} are no pair of certificate and private key`, {
    cert,
    key,
  });
  if (ca !== undefined) {
    const path = files.clientCa ?? '';
    if (!ca.includes('-----BEGIN CERTIFICATE-----')) {
      throw new TlsError(`the file ${path} of --tls-client-ca contains no certificate; expected PEM`);
    }
    attempt(`the file ${path} of --tls-client-ca is no certificate`, { ca });
  }
}

function attempt(problem: string, options: SecureContextOptions): void {
  try {
    createSecureContext(options);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new TlsError(`${problem}: ${why}; expected PEM`);
  }
}

function contextOf({ cert, key, ca }: Contents): SecureContextOptions {
  return { cert, key, ...(ca === undefined ? {} : { ca }) };
}

function isEqual(a: Contents, b: Contents): boolean {
  return a.cert.equals(b.cert) && a.key.equals(b.key) && (a.ca?.equals(b.ca ?? Buffer.alloc(0)) ?? true);
}
