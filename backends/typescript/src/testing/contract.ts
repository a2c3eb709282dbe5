/** What the contract forbids a policy to answer. In service the gateway clamps, caches or repeats; a test fails. */

import { AssertionError } from 'node:assert';
import { isDeepStrictEqual } from 'node:util';

import type { NodeChange, PodChange } from '../gen/extender/policy/v1beta1/hooks.js';
import type { Scores } from '../gen/extender/policy/v1beta1/policy.js';
import type { VerbInfo } from '../gen/extender/policy/v1beta1/info.js';
import type { ChangedPart } from '../hook.js';
import { NO_OPINION } from '../verdict.js';

const NUMBERS = /(?<![\p{L}\p{N}_./:-])\p{N}+([.,]\p{N}+)*/gu;

/** The fields of responses with answers about the pod and nodes. */
interface Answered {
  readonly result: unknown;
  readonly rejections?: readonly { readonly positions: readonly number[] }[];
  readonly nodes?: readonly { readonly positions: readonly number[] }[];
  readonly scores?: Scores | undefined;
  readonly pod?: unknown;
}

/** The scores as the policy gave them. */
export function scoresGiven({ values, absent }: Scores): number[] {
  return values.map((value, position) => (absent.includes(position) ? NO_OPINION : value));
}

/** Scores are on the declared scale. */
export function checkScores(
  declared: VerbInfo | undefined,
  scores: readonly number[],
  nodes: readonly string[],
): void {
  const { scoreMin = -Infinity, scoreMax = Infinity } = declared ?? {};
  const at = scores.findIndex((score) => score !== NO_OPINION && (score < scoreMin || score > scoreMax));
  check(
    at < 0,
    `score returned ${String(scores[at])} for node "${String(nodes[at])}"; the declared scale is ${String(scoreMin)} to ${String(scoreMax)}: clamp the score, or declare another scale`,
  );
}

/** Reasons are constant texts for people. */
export function checkReasons(rejected: readonly { readonly node: string; readonly reason: string }[]): void {
  const known = new Map<string, { readonly node: string; readonly reason: string }>();
  for (const rejection of rejected) {
    const { node, reason } = rejection;
    check(
      reason.trim() !== '',
      `filter rejects node "${node}" without a reason; say in a constant text what is wrong with the node`,
    );
    check(
      !/\p{Cc}/u.test(reason),
      `filter rejects node "${node}" with the reason ${JSON.stringify(reason)}, which has control characters; write one line of text`,
    );
    const shape = reason.replaceAll(NUMBERS, '0');
    const other = known.get(shape) ?? rejection;
    check(
      other.reason === reason,
      `filter rejects node "${other.node}" with the reason "${other.reason}" and node "${node}" with "${reason}"; leave numbers out of reasons: each new text makes kube-scheduler retry the pod`,
    );
    known.set(shape, other);
  }
}

/** The parts that the fields of changes belong to. */
const POD_PARTS: Readonly<Record<Exclude<keyof PodChange, 'reason'>, ChangedPart>> = {
  setLabels: 'podLabels',
  removeLabels: 'podLabels',
  setAnnotations: 'podAnnotations',
  removeAnnotations: 'podAnnotations',
  setNodeSelector: 'podNodeSelector',
  removeNodeSelector: 'podNodeSelector',
  nodeAffinity: 'podNodeAffinity',
  removeNodeAffinity: 'podNodeAffinity',
  podAffinity: 'podAffinity',
  topologySpread: 'podTopologySpread',
  addTolerations: 'podTolerations',
  removeTolerations: 'podTolerations',
  addRequests: 'podRequests',
};
const NODE_PARTS: Readonly<Record<Exclude<keyof NodeChange, 'reason' | 'positions'>, ChangedPart>> = {
  addAllocatable: 'nodeAllocatable',
  addUsage: 'nodeUsage',
  holds: 'nodeUsage',
  setLabels: 'nodeLabels',
  removeLabels: 'nodeLabels',
  addTaints: 'nodeTaints',
  removeTaints: 'nodeTaints',
};

/** A hook changes what it declares to change. */
export function checkChanges(
  hook: string,
  declared: ReadonlySet<ChangedPart>,
  { pod, nodes = [] }: { readonly pod?: PodChange | undefined; readonly nodes?: readonly NodeChange[] },
): void {
  const changed = [
    ...(pod === undefined ? [] : changedParts(pod, POD_PARTS)),
    ...nodes.flatMap((node) => changedParts(node, NODE_PARTS)),
  ];
  for (const [field, part] of changed) {
    check(
      declared.has(part),
      `${hook} changes ${part} (${field}) and does not declare it; declare it with Hook.changes('${part}')`,
    );
  }
}

/** Those of which something is changed: lists and maps that are not empty, and other values that are set. */
function changedParts(change: object, parts: Readonly<Record<string, ChangedPart>>): [string, ChangedPart][] {
  return Object.entries(parts).filter(([field]) => {
    const value: unknown = Reflect.get(change, field);
    return value instanceof Map ? value.size > 0 : Array.isArray(value) ? value.length > 0 : Boolean(value);
  });
}

/** A pure verb gives each node the same answer when it is asked again with the nodes in the opposite order. */
export function checkPure(verb: string, first: Answered, again: Answered, nodes: readonly string[]): void {
  const [one, two] = [byPosition(first, nodes), byPosition(again, nodes.toReversed())];
  for (const about of new Set([...one.keys(), ...two.keys()])) {
    check(
      isDeepStrictEqual(one.get(about), two.get(about)),
      `${verb} is declared pure and gave another answer about ${about} when it was asked again; a pure verb depends on the pod, the node and the args alone: declare it without pure, or name in the revision what it depends on`,
    );
  }
}

/** What is answered about the pod and each node, without the positions. */
function byPosition(
  { rejections = [], nodes = [], scores, pod }: Answered,
  names: readonly string[],
): Map<string, unknown> {
  const found = new Map<string, unknown>([['the pod', pod]]);
  const about = (position: number): string => `node "${String(names[position])}"`;
  const given = scores === undefined ? [] : scoresGiven(scores);
  given.forEach((score, position) => found.set(about(position), score));
  for (const { positions, ...answer } of [...rejections, ...nodes]) {
    positions.forEach((position) => found.set(about(position), answer));
  }
  return found;
}

function check(holds: boolean, message: string): void {
  if (!holds) {
    throw new AssertionError({ message });
  }
}
