/** A program that takes half a second for each pod. */

import { setTimeout } from 'node:timers/promises';

import { Bind, Info, Policy, run } from '../src/index.js';

class SlowBinder extends Policy {
  override info(): Info {
    return new Info('slow-binder', '1').binds();
  }

  override async bind(): Promise<Bind> {
    process.stderr.write('binding\n');
    await setTimeout(500);
    return Bind.bound;
  }
}

run(new SlowBinder());
