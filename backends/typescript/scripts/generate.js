// Writes src/gen from ../../proto: messages and services, and the descriptors that reflection serves.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const contract = '../../proto';

const buf = (...args) =>
  execFileSync('node_modules/.bin/buf', args, { stdio: ['ignore', 'pipe', 'inherit'] });

buf('generate', contract);
const descriptors = buf('build', '--exclude-source-info', '-o', '-', contract).toString('base64');
// Written last: the Makefile takes this file for the sign that all of src/gen is there.
writeFileSync(
  'src/gen/descriptors.ts',
  `/** The files of proto/, as a FileDescriptorSet in base64. */
export const DESCRIPTORS = '${descriptors}';
`,
);
