/**
 * The objects of the part `rawJson` in the types of `@kubernetes/client-node`, an optional dependency. Nothing of it is loaded
 * when the program runs: these are types alone.
 */

import type { V1Node, V1Pod } from '@kubernetes/client-node';

import type { Node } from './node.js';
import type { Pod } from './pod.js';

/** An object as its JSON has it: times are texts as the apiserver writes them (RFC 3339), and there are no methods. */
export type Json<T> = T extends Date
  ? string
  : T extends (...args: never) => unknown
    ? never
    : T extends readonly (infer Item)[]
      ? readonly Json<Item>[]
      : T extends object
        ? { readonly [K in keyof T]: Json<T[K]> }
        : T;

/** The node's object; undefined if the gateway does not have it. */
export function rawNode(node: Node): Json<V1Node> | undefined {
  return node.raw as Json<V1Node> | undefined;
}

/** The pod's object; undefined if the gateway does not have it. */
export function rawPod(pod: Pod): Json<V1Pod> | undefined {
  return pod.raw as Json<V1Pod> | undefined;
}
