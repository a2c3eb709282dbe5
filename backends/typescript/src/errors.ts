/** The errors of a call and their status codes: the contract's error table. */

import { Metadata, status, type StatusObject } from '@grpc/grpc-js';

import type { ErrorReason } from './gen/extender/policy/v1beta1/policy.js';
import { STATUS_MESSAGE_BYTES } from './limits.js';
import { UndeclaredRead } from './reads/access.js';
import { cut, inSentence } from './text.js';

/** Why a call is not answered, or why a stream is ended. */
export class CallError extends Error {
  override readonly name = 'CallError';

  private constructor(
    readonly code: status,
    private readonly reason: keyof typeof ErrorReason | undefined,
    message: string,
    options?: ErrorOptions,
  ) {
    super(cut(message, STATUS_MESSAGE_BYTES), options);
  }

  /** As gRPC sends it: its reason tells it apart from others of its code. */
  get status(): Partial<StatusObject> {
    const metadata = new Metadata();
    if (this.reason !== undefined) {
      metadata.set('extender-reason', `ERROR_REASON_${this.reason}`);
    }
    return { code: this.code, details: this.message, metadata };
  }

  private static of(code: status, reason?: keyof typeof ErrorReason): (message: string) => CallError {
    return (message) => new CallError(code, reason, message);
  }

  /** The request breaks a rule of the contract. */
  static readonly invalid = CallError.of(status.INVALID_ARGUMENT, 'INVALID_REQUEST');

  /** The args are not those of the policy. */
  static readonly invalidArgs = CallError.of(status.INVALID_ARGUMENT, 'INVALID_ARGS');

  /** The digest of a call's args names none that are known here. */
  static readonly argsUnknown = CallError.of(status.FAILED_PRECONDITION, 'ARGS_UNKNOWN');

  /** A field that every request has. */
  static missing(field: string): CallError {
    return CallError.invalid(`${field} is missing; every request has it`);
  }

  /** The policy may not be called here. */
  static readonly exposed = CallError.of(status.FAILED_PRECONDITION);

  /** The request is for another declaration than the policy's. */
  static readonly otherReads = CallError.of(status.FAILED_PRECONDITION, 'OTHER_READS');

  /** The policy does not answer calls with this purpose. */
  static readonly purpose = CallError.of(status.FAILED_PRECONDITION, 'PURPOSE');

  /** The policy does not declare the verb. */
  static notServed(verb: string): CallError {
    return new CallError(
      status.UNIMPLEMENTED,
      undefined,
      `this policy does not serve ${verb}; its GetInfo does not list it`,
    );
  }

  /** A path is not declared, or there is no such object. */
  static readonly notFound = CallError.of(status.NOT_FOUND);

  /** The policy cannot decide now. */
  static readonly unavailable = CallError.of(status.UNAVAILABLE, 'NOT_READY');

  /** The policy cannot answer about this pod. */
  static readonly aborted = CallError.of(status.ABORTED, 'CANNOT_ANSWER');

  /** A message is larger than what is read. */
  static readonly tooLarge = CallError.of(status.RESOURCE_EXHAUSTED, 'TOO_LARGE');

  /** Memory is lacking. */
  static readonly overloaded = CallError.of(status.RESOURCE_EXHAUSTED, 'OVERLOADED');

  /** What a path shows is larger than what is sent. */
  static readonly largeAnswer = CallError.of(status.RESOURCE_EXHAUSTED);

  /** The policy made a mistake. */
  static readonly internal = CallError.of(status.INTERNAL, 'POLICY_FAILED');

  /** The same, with what the policy threw for the log alone. */
  static bug(message: string, thrown: unknown): CallError {
    // The cause undefined would be none.
    const cause = thrown ?? String(thrown);
    return new CallError(status.INTERNAL, 'POLICY_FAILED', message, { cause });
  }
}

/**
 * Thrown by {@link Policy.ready}, or by any other method of a policy that cannot decide now, whichever pod it is asked
 * about: one sentence for operators. The call fails with UNAVAILABLE, and the policy is called again for the next pod.
 */
export class NotReady extends Error {
  override readonly name = 'NotReady';
}

/**
 * Thrown by any method of a policy that cannot answer about this pod, although it can about others: one sentence for
 * operators. The call fails with ABORTED, which says nothing about the calls about other pods, however long it took.
 */
export class CannotAnswer extends Error {
  override readonly name = 'CannotAnswer';
}

/**
 * Thrown by {@link Policy.bind} when binding failed: one sentence for operators. The gateway finds out whether the pod
 * was bound nevertheless, and otherwise applies the failure policy that the operator chose.
 */
export class BindFailed extends Error {
  override readonly name = 'BindFailed';
}

/**
 * Thrown by a function of {@link Info.shows} if there is no such object: one sentence for the person who asked. The
 * gateway responds with 404.
 */
export class NotFound extends Error {
  override readonly name = 'NotFound';
}

/**
 * Thrown by a function of {@link Info.shows} if a parameter of the path, or the query, is invalid: one sentence that says
 * what is expected. The gateway responds with 400.
 */
export class InvalidParameter extends Error {
  override readonly name = 'InvalidParameter';
}

/** Why arguments are rejected. The text reaches the operator: it names the mistake and what is expected. */
export class ArgsError extends Error {
  override readonly name = 'ArgsError';
}

/**
 * The mistakes of an {@link Info} that no gateway can find, such as no verb at all, one sentence each. The others, such as
 * a name that is too long, are named by the gateway and by policy-conformance.
 */
export class DeclarationError extends Error {
  override readonly name = 'DeclarationError';

  constructor(readonly mistakes: readonly string[]) {
    super(`invalid policy info: ${mistakes.join('; ')}`);
  }
}

/** An address cannot be listened on. */
export class ListenError extends Error {
  override readonly name = 'ListenError';

  constructor(address: string, cause: Error, option = '--address') {
    // grpc-js adds the system's errors at the end.
    const [, why = cause.message] = /errors: \[(.*)\]$/.exec(cause.message) ?? [];
    super(`cannot listen on ${address}: ${why}; set another ${option}, or stop the process that uses it`, {
      cause,
    });
  }
}

/** The error of a call of this method for whatever was thrown while it was answered. */
export function callError(method: string, thrown: unknown): CallError {
  if (thrown instanceof CallError) {
    return thrown;
  }
  if (thrown instanceof NotReady || thrown instanceof BindFailed) {
    return CallError.unavailable(thrown.message);
  }
  if (thrown instanceof CannotAnswer) {
    return CallError.aborted(thrown.message);
  }
  if (thrown instanceof ArgsError) {
    return CallError.invalidArgs(thrown.message);
  }
  if (thrown instanceof DeclarationError) {
    return CallError.internal(thrown.message);
  }
  const verb = inSentence(method);
  if (thrown instanceof UndeclaredRead) {
    return CallError.internal(`${verb} failed: ${thrown.message}`);
  }
  // The text may hold anything, and that of a status reaches people outside.
  return CallError.bug(`${verb} failed (${kindOf(thrown)}); see the policy's log`, thrown);
}

/** What the author of a policy gets to see in a test. */
export function testText({ message, cause }: CallError): string {
  return cause === undefined
    ? message
    : `${message.replace(/ \(.*/, '')}: ${kindOf(cause)}: ${shortText(cause)}`;
}

function kindOf(thrown: unknown): string {
  return thrown instanceof Error ? cut(thrown.constructor.name, 64) : typeof thrown;
}

/**
 * The stack of a mistake in the policy's code, for the log, or its message if the code has returned something wrong, so
 * that there is no stack of it; undefined if it is none.
 */
export function bugStack(thrown: unknown): string | undefined {
  if (thrown instanceof CallError) {
    const returned = thrown.code === status.INTERNAL ? thrown.message : undefined;
    return thrown.cause === undefined ? returned : stackOf(thrown.cause);
  }
  const isDeliberate = [NotReady, CannotAnswer, BindFailed, ArgsError, DeclarationError].some(
    (known) => thrown instanceof known,
  );
  return isDeliberate ? undefined : stackOf(thrown);
}

function stackOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : shortText(thrown);
}

function shortText(thrown: unknown): string {
  if (thrown instanceof Error) {
    return thrown.message;
  }
  try {
    return String(thrown);
  } catch {
    return 'without a text';
  }
}
