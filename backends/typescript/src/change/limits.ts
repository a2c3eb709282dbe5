/** The limits of the contract for a change. The gateway treats a change beyond them as a failure of the backend. */

import { affinityMessage, type Affinity, type AffinityTerm } from '../affinity.js';
import type { NodeChange, PodChange, UsageAdded } from '../change.js';
import { NodeAffinity } from '../gen/extender/policy/v1alpha1/pod.js';
import { MAX_KEY_BYTES } from '../reads/pods.js';
import type { NonZero, Resources, Taint } from '../resources.js';
import { byteLength, quoted } from '../text.js';

/** The most entries in all maps and lists of a change together. */
const MAX_ENTRIES = 64;

/** The longest value, in bytes. */
const MAX_VALUE_BYTES = 256;

/** The most terms, requirements and values of a node affinity, and its largest size in bytes. */
const MAX_AFFINITY_ENTRIES = 1024;
const MAX_AFFINITY_BYTES = 64 << 10;

/** The most users of all holds of a change, and the longest UID in bytes. */
const MAX_HOLD_USERS = 1024;
const MAX_UID_BYTES = 64;

const MIN_WEIGHT = 1;
const MAX_WEIGHT = 100;

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

const EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

/** The first thing about a change of the pod that the contract does not allow, as the end of a sentence. */
export function podMistake(change: PodChange): string | undefined {
  const { addTolerations, removeTolerations, addRequests, nodeAffinity } = change;
  return first([
    ...textsMistakes('setLabels', change.setLabels),
    ...keysMistakes('removeLabels', change.removeLabels),
    ...textsMistakes('setNodeSelector', change.setNodeSelector),
    ...keysMistakes('removeNodeSelector', change.removeNodeSelector),
    ...addTolerations.flatMap((toleration, at) => tolerationMistakes('addTolerations', at, toleration)),
    ...removeTolerations.flatMap((toleration, at) => tolerationMistakes('removeTolerations', at, toleration)),
    ...resourcesMistakes('addRequests', addRequests),
    nodeAffinity !== undefined && change.removeNodeAffinity
      ? 'has nodeAffinity and removeNodeAffinity; expected one of them'
      : undefined,
    nodeAffinity && affinityMistake(nodeAffinity),
    tooMany(
      change.setLabels.size +
        change.removeLabels.length +
        change.setNodeSelector.size +
        change.removeNodeSelector.length +
        addTolerations.length +
        removeTolerations.length +
        (addRequests?.others.size ?? 0),
    ),
  ]);
}

/** The same for a change of nodes. */
export function nodeMistake(change: NodeChange): string | undefined {
  const { addTaints, removeTaints, addAllocatable, addUsage } = change;
  return first([
    ...textsMistakes('setLabels', change.setLabels),
    ...keysMistakes('removeLabels', change.removeLabels),
    ...addTaints.flatMap((taint, at) => [
      ...taintMistakes('addTaints', at, taint),
      effectMistake('addTaints', at, taint),
    ]),
    ...removeTaints.flatMap((taint, at) => taintMistakes('removeTaints', at, taint)),
    ...resourcesMistakes('addAllocatable', addAllocatable),
    ...usageMistakes(addUsage),
    ...holdMistakes(change.holds),
    tooMany(
      change.setLabels.size +
        change.removeLabels.length +
        addTaints.length +
        removeTaints.length +
        (addAllocatable?.others.size ?? 0) +
        (addUsage?.requested?.others.size ?? 0) +
        change.holds.reduce((entries, { resources }) => entries + 1 + resources.others.size, 0),
    ),
  ]);
}

type Mistake = string | undefined;

function first(mistakes: readonly Mistake[]): Mistake {
  return mistakes.find((mistake) => mistake !== undefined);
}

function tooMany(entries: number): Mistake {
  return entries > MAX_ENTRIES
    ? `has ${String(entries)} entries in its maps and lists; expected at most ${String(MAX_ENTRIES)}`
    : undefined;
}

function keyMistake(where: string, key: string): Mistake {
  const bytes = byteLength(key);
  return bytes === 0 || bytes > MAX_KEY_BYTES
    ? `has a key of ${String(bytes)} bytes in ${where}; expected 1 to ${String(MAX_KEY_BYTES)}`
    : undefined;
}

function valueMistake(where: string, value: string, most = MAX_VALUE_BYTES): Mistake {
  const bytes = byteLength(value);
  return bytes > most
    ? `has ${String(bytes)} bytes in ${where}; expected at most ${String(most)}`
    : undefined;
}

function textsMistakes(field: string, texts: ReadonlyMap<string, string>): Mistake[] {
  return [...texts].flatMap(([key, value]) => [
    keyMistake(field, key),
    valueMistake(`${field}[${quoted(key)}]`, value),
  ]);
}

function keysMistakes(field: string, keys: readonly string[]): Mistake[] {
  return keys.map((key) => keyMistake(field, key));
}

/** The key of a toleration may be empty: then it tolerates every key. */
function tolerationMistakes(
  field: string,
  at: number,
  { key, operator, value, effect, tolerationSeconds }: PodChange['addTolerations'][number],
): Mistake[] {
  const where = `${field}[${String(at)}]`;
  return [
    valueMistake(`${where}.key`, key, MAX_KEY_BYTES),
    valueMistake(`${where}.operator`, operator),
    valueMistake(`${where}.value`, value),
    valueMistake(`${where}.effect`, effect),
    tolerationSeconds === undefined
      ? undefined
      : amountMistake(`${where}.tolerationSeconds`, tolerationSeconds),
  ];
}

function taintMistakes(field: string, at: number, { key, value, effect }: Taint): Mistake[] {
  const where = `${field}[${String(at)}]`;
  return [
    keyMistake(where, key),
    valueMistake(`${where}.value`, value),
    valueMistake(`${where}.effect`, effect),
  ];
}

function effectMistake(field: string, at: number, { effect }: Taint): Mistake {
  return EFFECTS.includes(effect)
    ? undefined
    : `has the effect ${quoted(effect)} in ${field}[${String(at)}]; expected one of ${EFFECTS.join(', ')}`;
}

function amountMistake(where: string, amount: bigint): Mistake {
  return amount < INT64_MIN || amount > INT64_MAX
    ? `has ${String(amount)} in ${where}; expected an integer of 64 bits`
    : undefined;
}

function resourcesMistakes(where: string, resources: Resources | undefined): Mistake[] {
  if (resources === undefined) {
    return [];
  }
  const { others, ...named } = resources;
  return [
    ...Object.entries(named).map(([name, amount]) => amountMistake(`${where}.${name}`, amount)),
    ...[...others].flatMap(([name, amount]) => [
      keyMistake(`${where}.others`, name),
      amountMistake(`${where}.others[${quoted(name)}]`, amount),
    ]),
  ];
}

function usageMistakes(usage: UsageAdded | undefined): Mistake[] {
  const nonzero: Partial<NonZero> = usage?.nonzero ?? {};
  return [
    ...resourcesMistakes('addUsage.requested', usage?.requested),
    ...Object.entries(nonzero).map(([name, amount]) => amountMistake(`addUsage.nonzero.${name}`, amount)),
  ];
}

function holdMistakes(holds: NodeChange['holds']): Mistake[] {
  const users = holds.flatMap((hold) => hold.users.map(({ uid }) => uid));
  const long = users.find((uid) => uid === '' || byteLength(uid) > MAX_UID_BYTES);
  const amounts = holds.flatMap(({ resources: { others, ...named } }) => [
    ...Object.values(named),
    ...others.values(),
  ]);
  return [
    ...holds.flatMap(({ resources }) => resourcesMistakes('holds', resources)),
    users.length > MAX_HOLD_USERS
      ? `has ${String(users.length)} users in holds; expected at most ${String(MAX_HOLD_USERS)}`
      : undefined,
    long === undefined
      ? undefined
      : `has a user with a UID of ${String(byteLength(long))} bytes in holds; expected 1 to ${String(MAX_UID_BYTES)}`,
    amounts.some((amount) => amount < 0n) ? 'has a negative amount in holds' : undefined,
  ];
}

function affinityMistake(affinity: Affinity): Mistake {
  const preferred = affinity.preferred ?? [];
  const terms = [...(affinity.required?.terms ?? []), ...preferred.map(({ preference }) => preference ?? {})];
  const requirements = terms.flatMap(({ matchExpressions = [], matchFields = [] }: AffinityTerm) => [
    ...matchExpressions,
    ...matchFields,
  ]);
  const values = requirements.flatMap((requirement) => requirement.values ?? []);
  const entries = terms.length + requirements.length + values.length;
  const found = first([
    entries > MAX_AFFINITY_ENTRIES
      ? `has ${String(entries)} terms, requirements and values in nodeAffinity; expected at most ${String(MAX_AFFINITY_ENTRIES)}`
      : undefined,
    ...requirements.flatMap(({ key, operator }) => [
      keyMistake('nodeAffinity', key),
      valueMistake('nodeAffinity', operator),
    ]),
    ...values.map((value) => valueMistake('nodeAffinity', value)),
    ...preferred.map(({ weight }) => weightMistake(weight)),
  ]);
  // A weight that is no integer cannot be encoded.
  return found ?? sizeMistake(affinity);
}

function weightMistake(weight: number): Mistake {
  return Number.isInteger(weight) && weight >= MIN_WEIGHT && weight <= MAX_WEIGHT
    ? undefined
    : `has the weight ${String(weight)} in nodeAffinity; expected an integer, ${String(MIN_WEIGHT)} to ${String(MAX_WEIGHT)}`;
}

function sizeMistake(affinity: Affinity): Mistake {
  const bytes = NodeAffinity.encode(affinityMessage(affinity)).finish().length;
  return bytes > MAX_AFFINITY_BYTES
    ? `has a nodeAffinity of ${String(bytes)} bytes; expected at most ${String(MAX_AFFINITY_BYTES)}`
    : undefined;
}
