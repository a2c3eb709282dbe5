/** Certificates for tests, made with openssl. */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

/** An authority, and what it signs. The files are removed when the tests of the file are over. */
export class Authority {
  readonly folder = mkdtempSync(join(tmpdir(), 'policy-'));
  readonly certificate: string;
  private readonly key: string;

  constructor(name: string) {
    after(() => {
      rmSync(this.folder, { recursive: true });
    });
    this.certificate = join(this.folder, 'ca.crt');
    this.key = join(this.folder, 'ca.key');
    const subject = ['-subj', `/CN=${name}`, '-keyout', this.key, '-out', this.certificate];
    openssl('req', '-x509', ...NEW_KEY, '-days', '2', ...subject);
  }

  /** The paths of a new certificate for 127.0.0.1 and of its key. */
  issue(name: string): { cert: string; key: string } {
    const path = (suffix: string): string => join(this.folder, `${name}.${suffix}`);
    writeFileSync(path('ext'), 'subjectAltName=IP:127.0.0.1\n');
    openssl('req', '-new', ...NEW_KEY, '-subj', `/CN=${name}`, '-keyout', path('key'), '-out', path('csr'));
    const signer = ['-CA', this.certificate, '-CAkey', this.key, '-CAcreateserial', '-extfile', path('ext')];
    openssl('x509', '-req', '-in', path('csr'), ...signer, '-days', '2', '-out', path('crt'));
    return { cert: path('crt'), key: path('key') };
  }

  /** The certificate. */
  pem(): Buffer {
    return readFileSync(this.certificate);
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
