// Writes src/gen from ../../proto: messages and services, and the descriptors that reflection serves.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const contract = '../../proto';
// Without what only the gateway and its plugin speak.
const only = ['--path', `${contract}/extender/policy`];

const buf = (...args) =>
  execFileSync('node_modules/.bin/buf', args, { stdio: ['ignore', 'pipe', 'inherit'] });

buf('generate', contract, ...only);
const descriptors = buf('build', '--exclude-source-info', '-o', '-', contract, ...only).toString('base64');
// Written last: the Makefile takes this file for the sign that all of src/gen is there.
writeFileSync(
  'src/gen/descriptors.ts',
  `/** The files of the policy API, as a FileDescriptorSet in base64. */
export const DESCRIPTORS = '${descriptors}';
`,
);
