/**
 * The source of the policy that answers a call: a fixed one, one that is replaced while running, or one built from the
 * operator's args.
 */

import { parseJson, readArgs, refuseAny, type Schema, type StandardSchema } from './args.js';
import { Declaration } from './declaration.js';
import type { VerbName } from './declaration/names.js';
import { unwritten } from './declaration/unwritten.js';
import { keyOf, sha256, SHA256_BYTES } from './digest.js';
import { ArgsError, CallError } from './errors.js';
import type { Call } from './gen/extender/policy/v1beta1/policy.js';
import type { Info } from './info.js';
import { ARGS_BYTES } from './limits.js';
import type { Policy } from './policy.js';

/** The earlier versions of a policy that are kept. Gateways repeat the handshake within a second. */
const MAX_EARLIER = 16;

/** The most policies that are kept for args. With more configured policies some are rebuilt now and then. */
const MAX_CONFIGURED = 16;

/** The most bytes of args from which they were built. A policy built from them can be tens of times as large. */
const MAX_CONFIGURED_BYTES = 2 << 20;

/** A policy with its validated declaration, which belong together: a call never mixes two policies. */
export class Prepared {
  readonly declaration: Declaration;

  /** @throws {DeclarationError} */
  constructor(
    readonly policy: Policy,
    info: (policy: Policy) => Info = (declared) => declared.info(),
  ) {
    const declared = info(policy);
    this.declaration = new Declaration(declared, unwritten(policy, declared.fields));
  }

  /** Whether the policy can decide now. */
  get isReady(): boolean {
    try {
      this.policy.ready();
      return true;
    } catch {
      return false;
    }
  }
}

/** The versions of a policy that changes while running. A request is encoded with one declaration, and can be read with no other. */
export class Versions {
  /** The latest one so far. */
  newest: Prepared;
  /** The latest of them first. No two versions declare the same. */
  private earlier: readonly Prepared[] = [];

  constructor(
    first: Policy,
    private readonly info?: (policy: Policy) => Info,
  ) {
    this.newest = new Prepared(first, info);
  }

  /** The version that answers from now on. */
  latest(): Prepared {
    const asked = this.newest;
    const current = asked.policy.current();
    // Unless the program has replaced it meanwhile.
    if (current !== asked.policy && this.newest === asked) {
      this.replace(current);
    }
    return this.newest;
  }

  /** The latest version whose verb is declared with this. */
  declaring(verb: VerbName, reads: Uint8Array): Prepared | undefined {
    return this.earlier.find(({ declaration }) => declaration.of(verb)?.reads.equals(reads) === true);
  }

  /** With a mistake in the new declaration the old one stays. */
  replace(policy: Policy): void {
    const latest = new Prepared(policy, this.info);
    const { reads } = latest.declaration;
    const others = [this.newest, ...this.earlier].filter(({ declaration }) => declaration.reads !== reads);
    this.earlier = others.slice(0, MAX_EARLIER);
    this.newest = latest;
  }
}

/** From args that are not known to the policy for them. */
type Source = (args: Uint8Array) => Versions;

/**
 * What {@link serve} serves. A policy converts into a backend, so `serve(new MyPolicy())` is enough for most.
 */
export class Backend {
  private constructor(
    private readonly source: Source,
    /** The only policy; undefined if there is one for each args. @internal */
    readonly fixed: Versions | undefined,
    private readonly recent = new Recent(),
    /** Why the policy must not bind; undefined if it may. */
    private readonly refusal?: string,
  ) {}

  /**
   * The same backend where other machines can call it without a certificate: it must not bind. Whether a policy that is
   * built from args binds is known when it is called. @internal
   */
  exposed(refusal: string): Backend {
    return new Backend(this.source, this.fixed, this.recent, refusal);
  }

  /**
   * One policy that takes no args.
   *
   * @throws {DeclarationError}
   */
  static of(backend: Policy | Backend): Backend {
    return backend instanceof Backend ? backend : Backend.fixedTo(new Versions(backend));
  }

  /**
   * A policy built from the operator's args, so that one process serves several configured policies. The function is
   * called once for each distinct args, not once a call; without args the schema sees an empty object. It may throw an
   * {@link ArgsError} for what the schema cannot check.
   */
  static configured<T>(schema: Schema<T> | StandardSchema<T>, build: (args: T) => Policy): Backend {
    return new Backend((args) => new Versions(build(readArgs(schema, args))), undefined);
  }

  /**
   * A policy that takes no args and is replaced while running, such as one made from a rule file. Calls under way finish
   * with the old one. If the new one declares other {@link Reads}, the old one still answers the calls that were made
   * for it, until the gateway has repeated the handshake; so do the 16 latest of several old ones. A new one whose
   * declaration the gateway rejects replaces the old one, too: check it with policy-conformance before.
   *
   * @throws {DeclarationError} Then the old one stays.
   */
  static replaceable(policy: Policy): {
    readonly backend: Backend;
    readonly replace: (policy: Policy) => void;
  } {
    const versions = new Versions(policy);
    const replace = (newer: Policy): void => {
      versions.replace(newer);
    };
    return { backend: Backend.fixedTo(versions), replace };
  }

  /** A policy that is sent everything, whatever it declares to read. @internal */
  static readingEverything(policy: Policy): Backend {
    return Backend.fixedTo(new Versions(policy, (declared) => declared.info().readingEverything()));
  }

  /** The policy that this backend has for these args, for any args. @internal */
  withArgs(args: Uint8Array): Backend {
    const versions = this.versionsFor(args);
    return new Backend(() => versions, versions);
  }

  /** Whether all policies in use can decide now. @internal */
  get isReady(): boolean {
    const used = this.fixed === undefined ? this.recent.versions : [this.fixed];
    return used.every(({ newest }) => newest.isReady);
  }

  /** The policy for these args. @internal */
  policyFor(args: Uint8Array): Prepared {
    return this.latest(this.versionsFor(args));
  }

  private versionsFor(args: Uint8Array): Versions {
    checkLength(args);
    const key = args.length === 0 ? NONE : keyOf(sha256(args));
    return this.recent.find(key) ?? this.build(key, args);
  }

  /** The versions of the policy for the args that a call names, or brings. @internal */
  versionsOf({ args, argsSha256: digest }: Pick<Call, 'args' | 'argsSha256'>): Versions {
    if (digest.length === 0 && args.length === 0) {
      return this.versionsFor(args);
    }
    checkDigest(digest, args);
    const known = this.recent.find(keyOf(digest));
    if (known !== undefined) {
      return known;
    }
    if (args.length === 0) {
      throw CallError.argsUnknown('the args of this call are not known here; send them');
    }
    return this.build(keyOf(digest), args);
  }

  /** No args and an empty object, in any spelling, are equal. */
  private build(key: string, args: Uint8Array): Versions {
    const versions =
      args.length > 0 && areNone(args) ? this.versionsFor(new Uint8Array()) : this.source(args);
    this.recent.remember(key, args.length, versions);
    return versions;
  }

  /** The version that answers from now on. @internal */
  latest(versions: Versions): Prepared {
    const latest = versions.latest();
    if (this.refusal !== undefined && latest.declaration.of('Bind') !== undefined) {
      throw CallError.exposed(this.refusal);
    }
    return latest;
  }

  /**
   * The policy for a call: the latest one for its args or, if that one no longer declares what pod and nodes were encoded
   * with, an earlier one that does. Whether the verb is declared is left to the caller. @internal
   */
  policyReading(versions: Versions, { reads }: Call, verb: VerbName): Prepared {
    const latest = this.latest(versions);
    const declared = latest.declaration.of(verb)?.reads;
    if (declared === undefined || declared.equals(reads)) {
      return latest;
    }
    const earlier = versions.declaring(verb, reads);
    if (earlier === undefined) {
      throw CallError.otherReads(
        'call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake',
      );
    }
    return earlier;
  }

  private static fixedTo(versions: Versions): Backend {
    const source: Source = (args) => {
      refuseAny(args);
      return versions;
    };
    return new Backend(source, versions);
  }
}

/** The key of no args. */
const NONE = '';

/** Whether args are an empty object. */
function areNone(args: Uint8Array): boolean {
  return args.length <= 64 && Object.keys(parseJson(args)).length === 0;
}

/** Before they are hashed: a message may have many times as many bytes. */
function checkLength(args: Uint8Array): void {
  if (args.length > ARGS_BYTES) {
    throw new ArgsError(
      `args has ${String(args.length)} bytes; at most ${String(ARGS_BYTES)} are allowed, put longer lists into a file of the policy`,
    );
  }
}

function checkDigest(digest: Uint8Array, args: Uint8Array): void {
  if (digest.length !== SHA256_BYTES) {
    throw CallError.invalid(
      `call.args_sha256 has ${String(digest.length)} bytes; it is the SHA-256 of the args, which has ${String(SHA256_BYTES)}`,
    );
  }
  checkLength(args);
  if (args.length > 0 && !sha256(args).equals(digest)) {
    throw CallError.invalid('call.args_sha256 is not the SHA-256 of call.args');
  }
}

interface Entry {
  readonly versions: Versions;
  /** Of the args. */
  readonly bytes: number;
  /** Args that are used once, as by a client that is not the gateway, must not displace those of every call. */
  isUsedAgain: boolean;
}

/**
 * The policies that were recently built from args, by the digest of these. Bounded in number and bytes: args come from
 * outside.
 */
class Recent {
  /** The least recently used one first. */
  private readonly entries = new Map<string, Entry>();
  private bytes = 0;

  get versions(): Versions[] {
    return [...this.entries.values()].map(({ versions }) => versions);
  }

  find(key: string): Versions | undefined {
    const entry = this.entries.get(key);
    if (entry !== undefined) {
      entry.isUsedAgain = true;
      this.entries.delete(key);
      this.entries.set(key, entry);
    }
    return entry?.versions;
  }

  remember(key: string, bytes: number, versions: Versions): void {
    while (
      this.entries.size >= MAX_CONFIGURED ||
      (this.bytes + bytes > MAX_CONFIGURED_BYTES && this.bytes > 0)
    ) {
      this.evict();
    }
    this.entries.set(key, { versions, bytes, isUsedAgain: false });
    this.bytes += bytes;
  }

  /** Entries that were used only once go first. */
  private evict(): void {
    const entries = [...this.entries];
    const oldest = entries.find(([, entry]) => !entry.isUsedAgain) ?? entries[0];
    if (oldest !== undefined) {
      const [key, { bytes }] = oldest;
      this.entries.delete(key);
      this.bytes -= bytes;
    }
  }
}
