import assert from 'node:assert/strict';
import { test } from 'node:test';

import { filter, TestNode, TestPod, withArgs } from '@extender-gateway/policy/testing';

import { backend } from './policy.js';

test('nodes of closed zones are rejected', () => {
  const policy = withArgs(backend, '{"label": "zone", "closed": ["a"]}');
  const nodes = [new TestNode('n1').label('zone', 'a'), new TestNode('n2').label('zone', 'b'), new TestNode('n3')];
  assert.deepEqual(filter(policy, new TestPod('shop'), nodes), [['n1', 'zone is closed']]);
});

test('wrong args are named', () => {
  assert.throws(() => withArgs(backend, '{"label": "zone", "close": ["a"]}'), /close/);
});
