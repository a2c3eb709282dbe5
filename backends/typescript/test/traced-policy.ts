/** A program that makes a request of its own for each call, to the URL in its environment. */

import { context, propagation } from '@opentelemetry/api';

import {
  Bind,
  type BindAsk,
  Info,
  type Node,
  type Pod,
  Policy,
  Reads,
  run,
  Verb,
  Verdict,
} from '../src/index.js';

class Traced extends Policy {
  override info(): Info {
    return new Info('traced', '1').revision('r').filters(Verb.perNode().reads(Reads.everything())).binds();
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return node.name === 'bad' ? Verdict.reject('bad') : Verdict.accept;
  }

  override async bind({ node, signal }: BindAsk): Promise<Bind> {
    if (node === 'bad') {
      throw new Error('as asked');
    }
    const headers: Record<string, string> = {};
    propagation.inject(context.active(), headers);
    await fetch(process.env['ELSEWHERE'] ?? '', { headers, signal });
    return Bind.bound;
  }
}

run(new Traced());
