/**
 * Tries a policy on a pod and some nodes without a server, through the same code that answers calls.
 *
 * ```ts
 * const nodes = ['amd64', 'arm64'].map((arch) => new TestNode(arch).label('kubernetes.io/arch', arch));
 * assert.deepEqual(filter(new NoArm(), new TestPod('shop'), nodes), [['arm64', 'arm64 nodes are not in use yet']]);
 * ```
 *
 * A verb gets what the gateway would send for its declaration, so a test fails if the policy reads anything else.
 * {@link everything} is the same policy with nothing left out: if both give the same answers about random pods and nodes,
 * the declaration is complete.
 *
 * An answer that the policy does not give is thrown as a {@link NoAnswer}: the verb is not declared, the policy is not
 * ready, it failed. So is one that the contract forbids, as an `AssertionError`: a score outside of the scale, a reason
 * that is empty, has control characters, or differs from that of another node only in numbers, and a change that the hook
 * does not declare. A pure verb is asked twice, the second time with the nodes in another order, and must give each the
 * same answer.
 */

import { answerBind } from './answer.js';
import { answerReport, OBSERVE } from './answer/outcomes.js';
import { answer } from './answer/verbs.js';
import { Backend, type Prepared } from './backend.js';
import type { Terms } from './declaration.js';
import type { HookName, VerbName } from './declaration/names.js';
import { NodeChange, PodChange, type TaintGiven } from './change.js';
import { callError, testText } from './errors.js';
import type {
  ChangeResponse,
  NodeChange as NodeChangeMessage,
  PodChange as PodChangeMessage,
} from './gen/extender/policy/v1beta1/hooks.js';
import { type GetInfoResponse, Verb as VerbNumber } from './gen/extender/policy/v1beta1/info.js';
import { IntrospectRequest } from './gen/extender/policy/v1beta1/introspection.js';
import { MapValues } from './gen/extender/policy/v1beta1/map.js';
import { NodeFacts, NodeRow } from './gen/extender/policy/v1beta1/node.js';
import { ReportRequest } from './gen/extender/policy/v1beta1/outcomes.js';
import {
  type DeepPartial,
  type NodeAffinity,
  Pod as PodMessage,
  PodFacts,
  Toleration,
  Volume,
} from './gen/extender/policy/v1beta1/pod.js';
import {
  BindOutcome,
  BindRequest,
  Call,
  type Candidate as CandidateMessage,
  PreemptRequest,
  Purpose,
  RejectionKind,
} from './gen/extender/policy/v1beta1/policy.js';
import { answerIntrospect } from './introspect.js';
import { type Outcome, outcomeMessage } from './outcome.js';
import type { Policy } from './policy.js';
import { Reads } from './reads.js';
import type { QuestionVerb } from './request.js';
import { type Amounts, type NonZeroAmounts, nonZeroOf, type Resources, resourcesOf } from './resources.js';
import { Tables } from './table.js';
import { inSentence } from './text.js';
import { checkChanges, checkPure, checkReasons, checkScores, scoresGiven } from './testing/contract.js';
import { readRecorded } from './testing/recorded.js';
import { type ClusterNode, type Running, sentPod, sentRow, sentVictim } from './testing/sent.js';
import { Bind } from './verdict.js';

/** Why a policy gave no answer, as the gateway would get it. What the policy threw is the cause. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** A pod to test a policy with. It does not change: each method returns another one. */
export class TestPod {
  /** @internal */
  readonly message: PodMessage;

  /** A pod without labels in this namespace, or one of the contract, whose labels and annotations are entries. */
  constructor(
    given: string | PodMessage,
    /** @internal */
    readonly call: Pick<Call, 'id' | 'snapshot' | 'cluster'> = { id: 'test', snapshot: '', cluster: '' },
  ) {
    this.message =
      typeof given === 'string' ? PodMessage.fromPartial({ facts: { namespace: given } }) : given;
  }

  /** With a label. */
  label(key: string, value: string): TestPod {
    return this.with((facts) => ({ labels: withEntry(facts.labels, key, value) }));
  }

  /** With an annotation. The gateway sends only those that are declared. */
  annotation(key: string, value: string): TestPod {
    return this.with((facts) => ({ annotations: withEntry(facts.annotations, key, value) }));
  }

  /** With a toleration. */
  toleration(toleration: Partial<Toleration>): TestPod {
    return this.with((facts) => ({
      tolerations: [...facts.tolerations, Toleration.fromPartial(toleration)],
    }));
  }

  /** With a controller of this UID. */
  owner(uid: string): TestPod {
    return this.with(() => ({ owner: { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'owner', uid } }));
  }

  /** With this priority. */
  priority(priority: number): TestPod {
    return this.with(() => ({ priority }));
  }

  /** With a priority class of this name. */
  priorityClass(priorityClassName: string): TestPod {
    return this.with(() => ({ priorityClassName }));
  }

  /** With these requests. */
  requests(amounts: Amounts): TestPod {
    return this.with(() => ({ requests: resourcesOf(amounts) }));
  }

  /** With these requests as kube-scheduler's scores count them. */
  nonzeroRequests(milliCpu: bigint | number, memory: bigint | number): TestPod {
    return this.with(() => ({ nonzeroRequests: nonZeroOf({ milliCpu, memory }) }));
  }

  /** With an entry of the node selector. */
  nodeSelector(key: string, value: string): TestPod {
    return this.with((facts) => ({ nodeSelector: new Map(facts.nodeSelector).set(key, value) }));
  }

  /** With an affinity to nodes. */
  nodeAffinity(nodeAffinity: NodeAffinity): TestPod {
    return this.with(() => ({ nodeAffinity }));
  }

  /** With a volume, of a claim if one is named. */
  volume(name: string, claim = ''): TestPod {
    const added = Volume.fromPartial({ name, claim });
    return this.with((facts) => ({ volumes: [...facts.volumes, added] }));
  }

  /** With this scheduler. */
  schedulerName(schedulerName: string): TestPod {
    return this.with(() => ({ schedulerName }));
  }

  /** With these facts, as the contract has them, in place of earlier ones: for those that have no method of their own. */
  facts(facts: DeepPartial<PodFacts>): TestPod {
    return this.with(() => fieldsOf(PodFacts.fromPartial(facts), facts));
  }

  /** With a name, a UID, and the time of creation if one is given, in seconds since 1970. */
  identity(name: string, uid: string, createdSeconds?: number): TestPod {
    const created = createdSeconds === undefined ? {} : { createdSeconds: BigInt(createdSeconds) };
    return this.replaced({ identity: { name, uid, claims: [], ...created } });
  }

  /** With this object as its JSON. */
  raw(object: unknown): TestPod {
    return this.replaced({ rawJson: Buffer.from(JSON.stringify(object)) });
  }

  /** In calls about the state with this name. */
  snapshot(name: string): TestPod {
    return new TestPod(this.message, { ...this.call, snapshot: name });
  }

  /** In calls for the kube-scheduler of the cluster with this name. */
  cluster(name: string): TestPod {
    return new TestPod(this.message, { ...this.call, cluster: name });
  }

  /** In calls with this id, which is `test` otherwise. */
  callId(id: string): TestPod {
    return new TestPod(this.message, { ...this.call, id });
  }

  private with(change: (facts: PodFacts) => Partial<PodFacts>): TestPod {
    const facts = this.message.facts ?? PodFacts.create();
    return this.replaced({ facts: { ...facts, ...change(facts) } });
  }

  private replaced(fields: Partial<PodMessage>): TestPod {
    return new TestPod({ ...this.message, ...fields }, this.call);
  }
}

/** A node to test a policy with. It does not change: each method returns another one. */
export class TestNode implements ClusterNode {
  /** @internal */
  readonly row: NodeRow;

  /** A node without labels of this name, or a row of the contract, whose labels and annotations are entries. */
  constructor(
    given: string | NodeRow,
    /** @internal */
    readonly pods: readonly Running[] = [],
  ) {
    this.row = typeof given === 'string' ? NodeRow.fromPartial({ name: given, facts: {} }) : given;
  }

  /** With a label. */
  label(key: string, value: string): TestNode {
    return this.with((facts) => ({ labels: withEntry(facts.labels, key, value) }));
  }

  /** With an annotation. The gateway sends only those that are declared. */
  annotation(key: string, value: string): TestNode {
    return this.with((facts) => ({ annotations: withEntry(facts.annotations, key, value) }));
  }

  /** With a taint. */
  taint(key: string, value: string, effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute'): TestNode {
    return this.with((facts) => ({ taints: [...facts.taints, { key, value, effect }] }));
  }

  /** Cordoned. */
  unschedulable(): TestNode {
    return this.with(() => ({ unschedulable: true }));
  }

  /** With this status of a condition. */
  condition(type: string, status: 'True' | 'False' | 'Unknown'): TestNode {
    return this.with((facts) => ({ conditions: new Map(facts.conditions).set(type, status) }));
  }

  /** With this capacity. */
  capacity(amounts: Amounts): TestNode {
    return this.with(() => ({ capacity: resourcesOf(amounts) }));
  }

  /**
   * With these allocatable resources. Sums of requests contain the extended resources that the node reports.
   */
  allocatable(amounts: Amounts): TestNode {
    return this.with(() => ({ allocatable: resourcesOf(amounts) }));
  }

  /** With these facts, as the contract has them, in place of earlier ones: for those that have no method of their own. */
  facts(facts: DeepPartial<NodeFacts>): TestNode {
    return this.with(() => fieldsOf(NodeFacts.fromPartial(facts), facts));
  }

  /** With the requests of the pods on it; without, the usage is unknown. */
  usage(requested: Amounts, nonzero: NonZeroAmounts = {}): TestNode {
    const usage = { requested: resourcesOf(requested), nonzero: nonZeroOf(nonzero) };
    return new TestNode({ ...this.row, usage }, this.pods);
  }

  /** The same with the requests of the pods that are nominated to it. */
  nominated(requested: Amounts, nonzero: NonZeroAmounts = {}): TestNode {
    const { usage: nominated } = this.usage(requested, nonzero).row;
    return new TestNode({ ...this.row, nominated }, this.pods);
  }

  /**
   * With this many pods like this one on it, besides those that are there already. A verb that counts pods gets the
   * counts that the gateway would send for a cluster of the nodes of the call; the usage stays as it is.
   */
  running(pod: TestPod, pods: number): TestNode {
    return new TestNode(this.row, [...this.pods, { pod: pod.message, pods, terminating: 0 }]);
  }

  /** The same with pods that are being deleted. */
  terminating(pod: TestPod, pods: number): TestNode {
    return new TestNode(this.row, [...this.pods, { pod: pod.message, pods, terminating: pods }]);
  }

  /** With this object as its JSON. */
  raw(object: unknown): TestNode {
    return new TestNode({ ...this.row, rawJson: Buffer.from(JSON.stringify(object)) }, this.pods);
  }

  private with(change: (facts: NodeFacts) => Partial<NodeFacts>): TestNode {
    const facts = this.row.facts ?? NodeFacts.create();
    return new TestNode({ ...this.row, facts: { ...facts, ...change(facts) } }, this.pods);
  }
}

/** The fields of a message that are given. */
function fieldsOf<F extends object>(message: F, given: object): Partial<F> {
  return Object.fromEntries(Object.entries(message).filter(([field]) => field in given)) as Partial<F>;
}

/** The map with another entry. */
function withEntry(map: MapValues | undefined, key: string, value: string): MapValues {
  return MapValues.fromPartial({ entries: new Map(map?.entries).set(key, value) });
}

/** A node on which pods would be evicted. It does not change: each method returns another one. */
export class TestCandidate {
  /** No pod would be evicted yet; a policy never gets such a call. */
  constructor(
    /** @internal */
    readonly node: TestNode,
    /** @internal */
    readonly candidate: CandidateMessage = { victims: [], pdbViolations: 0, placeholder: false },
  ) {}

  /** With a victim, after the others. */
  victim(uid: string, pod: TestPod): TestCandidate {
    return this.with(uid, pod.message);
  }

  /** With a victim of which only the UID is known. */
  unknownVictim(uid: string): TestCandidate {
    return this.with(uid, undefined);
  }

  /** With this many evictions that violate a PodDisruptionBudget. */
  pdbViolations(pdbViolations: number): TestCandidate {
    return new TestCandidate(this.node, { ...this.candidate, pdbViolations });
  }

  private with(uid: string, pod: PodMessage | undefined): TestCandidate {
    return new TestCandidate(this.node, {
      ...this.candidate,
      victims: [...this.candidate.victims, { uid, pod }],
    });
  }
}

/**
 * The pod and the nodes that `extender-gateway try --objects FILE` has written, from YAML or a cluster. As any test objects,
 * a policy is sent what it declares of them.
 *
 * @throws an error that names the file, if it is none of these or is cut off
 */
export function recorded(path: string): { readonly pod: TestPod; readonly nodes: readonly TestNode[] } {
  const { pod, nodes } = readRecorded(path);
  return { pod: new TestPod(pod), nodes: nodes.map((row) => new TestNode(row)) };
}

/** The policy's answer to the handshake. */
export function info(backend: Policy | Backend): GetInfoResponse {
  return preparedOf(Backend.of(backend)).declaration.response;
}

/**
 * The policy that {@link Backend.configured} builds from these args: an object, or JSON as a text.
 *
 * @throws with the text that the gateway would log, when the policy does not accept the args
 */
export function withArgs(backend: Backend, args: string | object): Backend {
  const json = typeof args === 'string' ? args : JSON.stringify(args);
  return answered('GetInfo', () => backend.withArgs(Buffer.from(json)));
}

/**
 * The policy with declarations of all that its verbs can read: it is sent pods and nodes as they are. Counts of pods are
 * those that it declares, and a pure verb gets neither JSON nor the pod's identity.
 */
export function everything(policy: Policy): Backend {
  return Backend.readingEverything(policy);
}

/** The rejected nodes in the order given, each with its reason. */
export function filter(
  backend: Policy | Backend,
  pod: TestPod,
  nodes: readonly TestNode[],
): [node: string, reason: string][] {
  return filterInDetail(backend, pod, nodes).map(({ node, reason }) => [node, reason]);
}

/** A rejected node. */
export interface Rejected {
  readonly node: string;
  readonly reason: string;
  /** The rule's name; empty if it has none. */
  readonly rule: string;
  /** Whether no eviction of pods from the node would help. */
  readonly unresolvable: boolean;
  /** In how many seconds the verdict can be another one; left out if the policy does not say it. */
  readonly retryAfterSeconds?: number;
}

/** The rejected nodes in the order given, with everything that the policy says about them. */
export function filterInDetail(
  backend: Policy | Backend,
  pod: TestPod,
  nodes: readonly TestNode[],
): Rejected[] {
  const { rejections } = answerTo('Filter', Backend.of(backend), pod, nodes);
  const rejected = nodes.flatMap(({ row: { name: node } }, position) =>
    rejections
      .filter(({ positions }) => positions.includes(position))
      .map(({ reason, rule, kind, retryAfterSeconds }) => ({
        node,
        reason,
        rule,
        unresolvable: kind === RejectionKind.UNRESOLVABLE,
        ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      })),
  );
  checkReasons(rejected);
  return rejected;
}

/** The raw scores as the policy gave them, one a node, in the order given. */
export function score(backend: Policy | Backend, pod: TestPod, nodes: readonly TestNode[]): number[] {
  const from = Backend.of(backend);
  const { scores: answered } = answerTo('Score', from, pod, nodes);
  const scores = answered === undefined ? [] : scoresGiven(answered);
  checkScores(
    preparedOf(from).declaration.response.verbs.find(({ verb }) => verb === VerbNumber.SCORE),
    scores,
    nodes.map(({ row }) => row.name),
  );
  return scores;
}

/** The candidates that stay, in the order given: each node with the UIDs of the pods that are evicted there. */
export function preempt(
  backend: Policy | Backend,
  pod: TestPod,
  candidates: readonly TestCandidate[],
): [node: string, uids: string[]][] {
  const from = Backend.of(backend);
  const nodes = candidates.map(({ node }) => node);
  const sent = termsOf(from, 'Preempt')?.layout.pod;
  const given = candidates.map(({ candidate }) => ({
    ...candidate,
    placeholder: candidate.victims.length === 0,
    victims: candidate.victims.map((victim) => ({
      ...victim,
      pod: victim.pod && sent && sentVictim(victim.pod, sent),
    })),
  }));
  const { kept } = answerTo('Preempt', from, pod, nodes, given);
  return candidates.flatMap(({ node, candidate }, position) => {
    const stays = kept.find((found) => found.position === position);
    const uids = (stays?.victims ?? []).map((victim) => candidate.victims[victim]?.uid ?? '');
    return stays === undefined ? [] : [[node.row.name, uids] satisfies [string, string[]]];
  });
}

/** The result of binding the pod, which is named `pod` and has the UID `uid` unless it has an identity, to this node. */
export async function bind(backend: Policy | Backend, pod: TestPod, node: string): Promise<Bind> {
  const from = Backend.of(backend);
  const { call, pod: sent } = asked(from, 'Bind', pod, []);
  const { name = 'pod', uid = 'uid' } = pod.message.identity ?? {};
  const namespace = pod.message.facts?.namespace ?? '';
  const request = BindRequest.fromPartial({ call, namespace, name, uid, node, pod: sent });
  const { signal } = new AbortController();
  const { outcome, message } = await answerBind(from, encoded(BindRequest, request), {
    signal,
    note: unnoted,
  }).catch(noAnswer('Bind'));
  if (outcome === BindOutcome.BOUND) {
    return Bind.bound;
  }
  return outcome === BindOutcome.NOT_BOUND ? Bind.notBound(message) : Bind.declined(message);
}

/** What the hook changes about the pod; undefined if nothing. */
export function beforeFilter(backend: Policy | Backend, pod: TestPod): PodChange | undefined {
  return podChange(changesOf('BeforeFilter', backend, pod, []).pod);
}

/** The nodes that the hook changes in the order given, each with its change. */
export function beforeFilterNodes(
  backend: Policy | Backend,
  pod: TestPod,
  nodes: readonly TestNode[],
): [node: string, change: NodeChange][] {
  return changedNodes(nodes, changesOf('BeforeFilterNodes', backend, pod, nodes).nodes);
}

/** What a hook before score changes. */
export interface BeforeScore {
  /** Undefined if nothing about the pod. */
  readonly pod: PodChange | undefined;
  /** The nodes that it changes in the order given, each with its change. */
  readonly nodes: [node: string, change: NodeChange][];
}

/** What the hook changes about the pod and the nodes. */
export function beforeScore(
  backend: Policy | Backend,
  pod: TestPod,
  nodes: readonly TestNode[],
): BeforeScore {
  const changes = changesOf('BeforeScore', backend, pod, nodes);
  return { pod: podChange(changes.pod), nodes: changedNodes(nodes, changes.nodes) };
}

function changesOf(
  hook: HookName,
  policy: Policy | Backend,
  pod: TestPod,
  nodes: readonly TestNode[],
): Pick<ChangeResponse, 'pod' | 'nodes'> {
  const backend = Backend.of(policy);
  const changes = answerTo(hook, backend, pod, nodes);
  checkChanges(inSentence(hook), termsOf(backend, hook)?.changes ?? new Set(), changes);
  return changes;
}

function changedNodes(
  nodes: readonly TestNode[],
  changes: readonly NodeChangeMessage[],
): [node: string, change: NodeChange][] {
  return nodes.flatMap(({ row }, position) => {
    const found = changes.find(({ positions }) => positions.includes(position));
    return found === undefined ? [] : [[row.name, nodeChange(found)] satisfies [string, NodeChange]];
  });
}

function podChange(message: PodChangeMessage | undefined): PodChange | undefined {
  return message && new PodChange({ ...message, topologySpread: message.topologySpread?.constraints });
}

function nodeChange(message: NodeChangeMessage): NodeChange {
  const holds = message.holds.map(({ resources = {}, users }) => ({ resources, users }));
  // In a test the effect is what the policy has given, whatever its type.
  const addTaints = message.addTaints as readonly TaintGiven[];
  return new NodeChange({ ...message, addTaints, holds });
}

/** Tells the policy how attempts to place pods ended, in this order. */
export async function observe(backend: Policy | Backend, ...outcomes: readonly Outcome[]): Promise<void> {
  const call = Call.fromPartial({ purpose: Purpose.DECIDE });
  const message = encoded(ReportRequest, { call, outcomes: outcomes.map(outcomeMessage) });
  await answerReport(Backend.of(backend), message, unnoted).catch(noAnswer(OBSERVE));
}

/** The values of a path's parameters, and the query of the URL. */
export interface AskedFor {
  readonly parameters?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

/** What the policy shows at a path as it is declared, such as "/quotas/:namespace", as the parsed JSON. */
export async function introspect(
  backend: Policy | Backend,
  path: string,
  { parameters = {}, query = {} }: AskedFor = {},
): Promise<unknown> {
  const message = IntrospectRequest.fromPartial({
    path,
    parameters: new Map(Object.entries(parameters)),
    query: new Map(Object.entries(query)),
  });
  const { signal } = new AbortController();
  const answer = answerIntrospect(Backend.of(backend), encoded(IntrospectRequest, message), signal);
  const { json } = await answer.catch(noAnswer('Introspect'));
  return JSON.parse(Buffer.from(json).toString('utf8')) as unknown;
}

/** The answer to a request, encoded as that of Preempt: those of the others have its first fields. */
function answerTo<Verb extends QuestionVerb>(
  verb: Verb,
  backend: Backend,
  pod: TestPod,
  nodes: readonly TestNode[],
  candidates: CandidateMessage[] = [],
) {
  const ask = (of: readonly TestNode[]) => {
    const request = PreemptRequest.fromPartial({ ...asked(backend, verb, pod, of), candidates });
    const message = encoded(PreemptRequest, request);
    return answered(verb, () => answer(verb, { backend, tables: new Tables(), message, note: unnoted }), of);
  };
  const first = ask(nodes);
  if (termsOf(backend, verb)?.isPure === true && verb !== 'Preempt') {
    const again = ask(nodes.toReversed());
    // What the time decides may have changed meanwhile.
    if (again.result.revision === first.result.revision) {
      const names = nodes.map(({ row }) => row.name);
      checkPure(inSentence(verb), first, again, names);
    }
  }
  return first;
}

/** The common fields of all verbs and hooks, for a decision, as the gateway sends them for the declaration of the verb. */
function asked(backend: Backend, verb: VerbName, pod: TestPod, nodes: readonly TestNode[]) {
  // A verb that is not declared is not answered, whatever it is sent.
  const layout = termsOf(backend, verb)?.layout ?? new Reads().layout();
  const rows = nodes.map((node) => sentRow(node, layout));
  return {
    call: Call.fromPartial({ purpose: Purpose.DECIDE, reads: layout.digest, ...pod.call }),
    pod: sentPod(pod.message, layout.pod, nodes),
    nodes:
      verb === 'BeforeFilter'
        ? undefined
        : { count: nodes.length, form: { $case: 'rows' as const, value: { rows } } },
  };
}

function termsOf(backend: Backend, verb: VerbName): Terms | undefined {
  return preparedOf(backend).declaration.of(verb);
}

function preparedOf(backend: Backend): Prepared {
  return answered('GetInfo', () => backend.policyFor(new Uint8Array()));
}

function encoded<T>(type: { encode(message: T): { finish(): Uint8Array } }, message: T): Buffer {
  return Buffer.from(type.encode(message).finish());
}

function unnoted(): void {
  // Tests have no trace.
}

/** How a wrong answer names its node, which a verb need not read the name of. */
const AT_POSITION = /(?<=^\w+ returned .* for )position (\d+)/s;

/** The error of a call about these nodes. */
function noAnswer(method: string, nodes: readonly TestNode[] = []): (error: unknown) => never {
  return (error) => {
    const failed = callError(method, error);
    const name = (_: string, position: string): string =>
      `node "${String(nodes[Number(position)]?.row.name)}"`;
    const text = testText(failed).replace(AT_POSITION, name);
    throw new NoAnswer(text, { cause: failed === error ? failed.cause : error });
  };
}

function answered<T>(method: string, answer: () => T, nodes?: readonly TestNode[]): T {
  try {
    return answer();
  } catch (error) {
    return noAnswer(method, nodes)(error);
  }
}

export type { Amounts, Resources };
