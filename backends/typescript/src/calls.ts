/** What is done about each call besides answering it: its span, what log lines name it by, and what is noted at its end. */

import { AsyncLocalStorage } from 'node:async_hooks';

import { type Metadata, status } from '@grpc/grpc-js';

import type { Note } from './answer.js';
import type { VerbName } from './declaration/names.js';
import { type Followed, type Tracer, UNTRACED } from './telemetry.js';
import { inSentence, quoted } from './text.js';

/** The methods whose calls are followed; a request of HookService for none of the hooks is `Change`. */
export type Method = VerbName | 'Change' | 'GetInfo' | 'Observe';

/** The call that a policy answers, for its log lines. */
export interface CurrentCall {
  /** The verb, as in metrics: "before_filter". */
  readonly verb: string;
  /** The id of the call, as in the gateway's log; empty if it has none. */
  readonly callId: string;
  /** The pod as "namespace/name", as far as the verb reads both; undefined if it reads neither. */
  readonly pod: string | undefined;
}

/** A call that has ended. */
export interface EndedCall extends CurrentCall {
  /** The nodes of the request; undefined if it has none, or was not read. */
  readonly nodes: string | number | undefined;
  /** Undefined if the verb rejects none. */
  readonly rejected: string | number | undefined;
  /** The name of gRPC's code: "OK". */
  readonly code: string;
  /** Why there is no answer; empty if there is one. */
  readonly message: string;
  readonly milliseconds: number;
}

/** Gets each call at its end. */
export type Observer = (call: EndedCall) => void;

const current = new AsyncLocalStorage<CurrentCall>();

/**
 * The call that is being answered, also in what a method awaits; undefined elsewhere. It is to correlate log lines, in pure
 * verbs, too: an answer must not depend on it.
 */
export function currentCall(): CurrentCall | undefined {
  const call = current.getStore();
  return call && { verb: call.verb, callId: call.callId, pod: call.pod };
}

/** Follows calls. */
export class Calls {
  constructor(
    private readonly tracer: Tracer,
    private readonly observers: readonly Observer[],
  ) {}

  /** Begins a call. */
  follow(metadata: Metadata, method: Method): Call {
    const span =
      method === 'GetInfo' || method === 'Observe' ? UNTRACED : this.tracer.follow(metadata, method);
    const verb = inSentence(method).replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return new Call(verb, span, method === 'Change' ? [] : this.observers);
  }
}

/** The notes that are no attributes of spans: the operator of the gateway decides where those go. */
export const POD = 'pod';
export const NODES = 'nodes';

/** A call in progress. */
export class Call implements CurrentCall {
  private readonly began = performance.now();
  private readonly noted = new Map<string, string | number>();

  constructor(
    readonly verb: string,
    private readonly span: Followed,
    private readonly observers: readonly Observer[],
  ) {}

  get callId(): string {
    return String(this.noted.get('extender.call.id') ?? '');
  }

  get pod(): string | undefined {
    return this.noted.get(POD)?.toString();
  }

  /** Runs work with this call and its span as the current ones. */
  run<T>(work: () => T): T {
    return current.run(this, () => this.span.run(work));
  }

  /** Notes what is known of the call. */
  readonly note: Note = (key, value) => {
    this.noted.set(key, value);
    if (key !== POD && key !== NODES) {
      this.span.note(key, value);
    }
  };

  /** Ends the call. */
  end(code: status, message: string): void {
    this.span.end(code, message);
    if (this.observers.length === 0) {
      return;
    }
    const { verb, callId, pod, noted } = this;
    const ended = {
      verb,
      callId,
      pod,
      nodes: noted.get(NODES),
      rejected: noted.get('extender.nodes.rejected'),
      code: status[code],
      message,
      milliseconds: performance.now() - this.began,
    };
    this.observers.forEach((observe) => {
      observe(ended);
    });
  }
}

/** The line of the log about a call. */
export function callLine(call: EndedCall): string {
  const { verb, callId, pod, nodes, rejected, code, message } = call;
  const fields = {
    verb,
    call: callId === '' ? undefined : callId,
    pod,
    nodes,
    ...(code === 'OK' ? { rejected } : { code, message }),
    ms: call.milliseconds.toFixed(2),
  };
  return Object.entries(fields)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${inLine(String(value), name)}`]))
    .join(' ');
}

/** What comes from outside is on one line, bounded, and without what a terminal acts on. */
function inLine(text: string, name: string): string {
  if (text.length <= 320 && /^[\w./:-]+$/.test(text)) {
    return text;
  }
  const quotes = name === 'message' ? JSON.stringify(text) : quoted(text);
  return quotes.replace(/[\p{Cc}\u2028\u2029]/gu, '?');
}
