/** The revision of a policy that names none: replicas of one build have the same, and an edited program has another. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';

import { cut } from '../text.js';

/** The longest revision. */
const REVISION_BYTES = 64;

const DIGITS = 12;

let known: string | undefined;

/** The version and a digest of the program. */
export function programRevision(version: string): string {
  known ??= programDigest(process.argv[1]);
  return known === '' ? version : `${cut(version, REVISION_BYTES - 1 - DIGITS)}+${known}`;
}

/** Of the main script and the scripts beside it; empty if there is none, or they cannot be read. */
export function programDigest(main: string | undefined): string {
  if (main === undefined) {
    return '';
  }
  try {
    const script = realpathSync(main);
    const folder = dirname(script);
    const names = readdirSync(folder).filter((name) => extname(name) === extname(script));
    const digest = createHash('sha256');
    for (const name of names.toSorted()) {
      digest.update(`\0${name}\0`).update(readFileSync(join(folder, name)));
    }
    return digest.digest('hex').slice(0, DIGITS);
  } catch {
    return '';
  }
}
