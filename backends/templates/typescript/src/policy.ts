/**
 * Rejects nodes of closed zones. The operator's args name the label of the zone and the closed zones:
 * `{label: topology.kubernetes.io/zone, closed: [eu-1a]}`.
 */

import { args, Backend, Info, Policy, Reads, Verb, Verdict, type Node, type Pod } from '@extender-gateway/policy';

const schema = args.object({
  label: args.string(),
  closed: args.list(args.string()),
});

export class ClosedZones extends Policy {
  readonly #closed: ReadonlySet<string>;
  // Only this label is sent, and pods for which it is the same share cached answers.
  readonly #reads = new Reads();
  readonly #zone;

  constructor({ label, closed }: args.Infer<typeof schema>) {
    super();
    this.#closed = new Set(closed);
    this.#zone = this.#reads.nodeLabel(label);
  }

  override info(): Info {
    return new Info('{{name}}', '0.1.0').filters(Verb.perNode().pure().reads(this.#reads));
  }

  override filter(_pod: Pod, node: Node): Verdict {
    const zone = node.get(this.#zone);
    const isClosed = zone !== undefined && this.#closed.has(zone);
    return isClosed ? Verdict.reject('zone is closed').unresolvable() : Verdict.accept;
  }
}

export const backend = Backend.configured(schema, (options) => new ClosedZones(options));
