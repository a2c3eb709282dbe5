/** Policies for the extender gateway: write one, test it with the module `testing`, serve it. */

export type {
  Affinity,
  AffinityRequirement,
  AffinityTerm,
  PodAffinityGiven,
  TopologySpreadGiven,
} from './affinity.js';
export * as args from './args.js';
export { Backend } from './backend.js';
export { currentCall, type CurrentCall } from './calls.js';
export type { BindAsk, Candidate, Victim } from './candidate.js';
export {
  type HoldGiven,
  type HoldUser,
  NodeChange,
  type NodeChangeFields,
  PodChange,
  type PodChangeFields,
  type ScoreChanges,
  type TaintGiven,
  type TaintsRemoved,
  type Texts,
  type TolerationGiven,
  type UsageAdded,
  type UsageGiven,
} from './change.js';
export type { PodCount, PodsLike } from './counts.js';
export {
  ArgsError,
  BindFailed,
  CannotAnswer,
  DeclarationError,
  InvalidParameter,
  ListenError,
  NotFound,
  NotReady,
} from './errors.js';
export { type ChangedPart, Hook } from './hook.js';
export { Info, Scale, Verb, type Normalization } from './info.js';
export type { IntrospectAsk, ParameterOf } from './introspection.js';
export { MetricsError } from './metrics.js';
export type { Node } from './node.js';
export type { Outcome, OutcomeKind } from './outcome.js';
export type { Domains, Pod } from './pod.js';
export { Policy } from './policy.js';
export { Reads } from './reads.js';
export { UndeclaredRead } from './reads/access.js';
export type { NodeKey, NodePrefix, PodKey, PodPrefix } from './reads/key.js';
export type { NodePart, PodPart } from './reads/parts.js';
export { PodsBy, type PodsKey, type TopologyKey } from './reads/pods.js';
export type { Amounts, NodeUsage, NonZero, NonZeroAmounts, Resources, Taint } from './resources.js';
export { run } from './run.js';
export { ExposedError, listen, type Listening, serve, type ServeOptions } from './serve.js';
export { type SpanSource, TelemetryError, type TelemetryOptions } from './telemetry.js';
export { TlsError, type TlsFiles } from './tls.js';
export { Bind, Eviction, NO_OPINION, Verdict } from './verdict.js';
