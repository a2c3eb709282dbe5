import assert from 'node:assert/strict';
import { test } from 'node:test';

import { filter, TestNode, TestPod } from '@extender-gateway/policy/testing';

import { NoArm } from './no-arm.js';

test('arm64 is rejected', () => {
  const nodes = ['amd64', 'arm64'].map((arch) => new TestNode(arch).label('kubernetes.io/arch', arch));
  assert.deepEqual(filter(new NoArm(), new TestPod('shop'), nodes), [
    ['arm64', 'arm64 nodes are not in use yet'],
  ]);
});
