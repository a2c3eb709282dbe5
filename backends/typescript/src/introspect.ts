/** From a request for what a path shows to the answer, without sockets. */

import type { Backend } from './backend.js';
import type { Declaration } from './declaration.js';
import { CallError, InvalidParameter, NotFound } from './errors.js';
import { IntrospectRequest, type IntrospectResponse } from './gen/extender/policy/v1beta1/introspection.js';
import type { IntrospectAsk, Shown } from './introspection.js';
import { JSON_BYTES } from './limits.js';
import { decode, decoding } from './request.js';
import { quoted } from './text.js';

/** A larger request is not decoded. The args, its largest part, have at most 1 MiB. */
const MAX_REQUEST_BYTES = 2 << 20;

/** What a path shows; also if the policy is not ready: people look at its state to find out why. */
export async function answerIntrospect(
  backend: Backend,
  message: Buffer,
  signal: AbortSignal,
): Promise<IntrospectResponse> {
  const request = decoding(() => {
    checkLength(message);
    return decode(IntrospectRequest, message);
  });
  const { path, query } = request;
  const shown = shownAt(backend.policyFor(request.args).declaration, path);
  const parameters = parametersOf(shown, request.parameters);
  return { json: encoded(shown, await valueOf(shown, { path, parameters, query, signal })) };
}

function checkLength({ length }: Buffer): void {
  if (length > MAX_REQUEST_BYTES) {
    throw CallError.tooLarge(
      `the request has ${String(length)} bytes; at most ${String(MAX_REQUEST_BYTES)} are decoded`,
    );
  }
}

function shownAt({ shown }: Declaration, path: string): Shown {
  const found = shown.get(path);
  if (found === undefined) {
    throw CallError.notFound(
      `this policy does not show the path ${quoted(path)}; its GetInfo lists those it shows`,
    );
  }
  return found;
}

function parametersOf(shown: Shown, given: ReadonlyMap<string, string>): Record<string, string> {
  const lacking = shown.parameters.filter((name) => (given.get(name) ?? '') === '');
  if (lacking.length > 0) {
    throw CallError.invalid(
      `parameters lacks ${lacking.join(', ')} of ${shown.path}; each parameter of a path has a value`,
    );
  }
  return Object.fromEntries(shown.parameters.map((name) => [name, given.get(name) ?? '']));
}

async function valueOf({ show }: Shown, ask: IntrospectAsk): Promise<unknown> {
  try {
    return await show(ask);
  } catch (thrown) {
    if (thrown instanceof NotFound) {
      throw CallError.notFound(thrown.message);
    }
    if (thrown instanceof InvalidParameter) {
      throw CallError.invalid(thrown.message);
    }
    throw thrown;
  }
}

function encoded({ path }: Shown, value: unknown): Buffer {
  const json = Buffer.from(wellFormed(stringified(path, value)));
  if (json.length > JSON_BYTES) {
    throw CallError.largeAnswer(
      `what the policy shows at ${path} has ${String(json.length)} bytes as JSON; at most ${String(JSON_BYTES)} are allowed, select less with a parameter or the query`,
    );
  }
  return json;
}

function stringified(path: string, value: unknown): string {
  try {
    // The type of the library leaves out that this is undefined for undefined, functions and symbols.
    const text = JSON.stringify(value, plain) as string | undefined;
    if (text === undefined) {
      throw new TypeError(`${typeof value} was returned; return null if there is nothing`);
    }
    return text;
  } catch (thrown) {
    throw CallError.bug(
      `what the policy shows at ${path} cannot be written as JSON; its log says why`,
      thrown,
    );
  }
}

/** What `JSON.stringify` does not know, or would write as an empty object. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : String(value);
  }
  if (value instanceof Map) {
    return Object.fromEntries(value) as unknown;
  }
  return value instanceof Set ? [...(value as ReadonlySet<unknown>)] : value;
}

/** `JSON.stringify` escapes halves of surrogate pairs, which strict readers reject: they are no characters. */
function wellFormed(json: string): string {
  return json.includes('\\ud')
    ? json.replaceAll(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.length === 6 ? '\ufffd' : escape))
    : json;
}
