import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Info, NO_OPINION, type Node, type Pod, Policy, Reads, Scale, Verb } from '../src/index.js';
import { score, TestNode, TestPod } from '../src/testing.js';

const reads = new Reads().node('allocatable', 'usage');

class FreeCpu extends Policy {
  override info(): Info {
    return new Info('free-cpu', '1.0.0').scores(Verb.perNode().pure().reads(reads), Scale.between(0, 10));
  }

  override score(_pod: Pod, { allocatable, usage }: Node): number {
    // Not known is not 0 used, which would be the best score.
    if (!allocatable || !usage) return NO_OPINION;
    const [all, used] = [allocatable.milliCpu, usage.requested.milliCpu];
    return Math.max(0, Math.min(10, Number((10n * (all - used)) / (all > 0n ? all : 1n))));
  }
}

test('free CPU is scored', () => {
  const node = new TestNode('a').allocatable({ milliCpu: 4000 });
  const used = new TestNode('b').allocatable({ milliCpu: 4000 }).usage({ milliCpu: 1000 });
  assert.deepEqual(score(new FreeCpu(), new TestPod('shop'), [used, node]), [7, NO_OPINION]);
});

test('the README shows this score', () => {
  const source = readFileSync('test/readme.test.ts', 'utf8');
  const [, shown = ''] = /(const reads[^]*?)\n\ntest\('the README/.exec(source) ?? [];
  assert.ok(shown);
  assert.ok(readFileSync('README.md', 'utf8').includes(shown));
});
