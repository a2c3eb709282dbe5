import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bind, TestPod, withArgs } from '@extender-gateway/policy/testing';

import { reference } from './reference.js';

// The other answers are compared with those of the other languages.
test('pods are bound, but not those of system, and not on broken', async () => {
  const policy = withArgs(reference, { zone: 'closed', most: 2 });
  const pod = new TestPod('shop');
  assert.equal((await bind(policy, pod, 'n')).isBound, true);
  const elsewhere = await bind(policy, new TestPod('system'), 'broken');
  assert.equal(elsewhere.why, 'namespace system is bound elsewhere');
  await assert.rejects(bind(policy, pod, 'broken'), /^NoAnswer: node broken refuses pods$/);
});
