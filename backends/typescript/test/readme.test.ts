import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Info, type Node, type Pod, Policy, Reads, Scale, Verb } from '../src/index.js';
import { score, TestNode, TestPod } from '../src/testing.js';

const reads = new Reads().node('allocatable', 'usage');

class FreeCpu extends Policy {
  override info(): Info {
    return new Info('free-cpu', '1.0.0').scores(Verb.perNode().pure().reads(reads), Scale.between(0, 10));
  }

  override score(_pod: Pod, { allocatable, usage }: Node): number {
    const [all, used] = [allocatable?.milliCpu ?? 0n, usage?.requested.milliCpu ?? 0n];
    return all > used ? Number((10n * (all - used)) / all) : 0;
  }
}

test('free CPU is scored', () => {
  const node = new TestNode('a').allocatable({ milliCpu: 4000 }).usage({ milliCpu: 1000 });
  assert.deepEqual(score(new FreeCpu(), new TestPod('shop'), [node]), [7]);
});

test('the README shows this score', () => {
  const source = readFileSync('test/readme.test.ts', 'utf8');
  const [, shown = ''] = /(const reads[^]*?)\n\ntest\('the README/.exec(source) ?? [];
  assert.ok(readFileSync('README.md', 'utf8').includes(shown));
});
