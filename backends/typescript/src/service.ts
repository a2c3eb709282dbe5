/** The contract's services over the answers: transport only. Messages are decoded by hand, because rows stay encoded. */

import {
  type sendUnaryData,
  type Server,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  status,
} from '@grpc/grpc-js';

import { answerReport, OBSERVE } from './answer/outcomes.js';
import { answer as answerVerb } from './answer/verbs.js';
import { answerBind, answerInfo, refuseHook } from './answer.js';
import type { Backend } from './backend.js';
import type { Calls } from './calls.js';
import { hookOf } from './declaration.js';
import type { HookName } from './declaration/names.js';
import { CallError, callError, bugStack } from './errors.js';
import { HookServiceService } from './gen/extender/policy/v1beta1/hooks.js';
import { IntrospectionServiceService } from './gen/extender/policy/v1beta1/introspection.js';
import { OutcomeServiceService } from './gen/extender/policy/v1beta1/outcomes.js';
import { PolicyServiceService } from './gen/extender/policy/v1beta1/policy.js';
import { NodeTableServiceService, type SyncNodesResponse } from './gen/extender/policy/v1beta1/table.js';
import { WatchServiceService, type WatchResponse } from './gen/extender/policy/v1beta1/watch.js';
import { answerIntrospect } from './introspect.js';
import { decoding, type QuestionVerb, readHook, readSync } from './request.js';
import { checkSize, SYNC_NODES } from './size.js';
import { Filling, type Tables } from './table.js';
import { outcome } from './telemetry.js';
import { Watches } from './watch.js';

/** Where the services write lines for operators. */
export type Log = (line: string) => void;

/** A call whose message is not decoded yet. */
type Unary = ServerUnaryCall<Buffer, unknown>;

/** A request of HookService for no hook. */
const NO_HOOK = 'Change';

/** At most this many different failures of policies are logged: the texts may contain anything. */
const MAX_LOGGED = 100;

/** The requests for introspection in progress: those of four gateways. */
const MAX_SHOWN = 16;

/** The same services with requests as bytes, or in what is made of these. */
function undecoded(
  definition: object,
  requestDeserialize = (bytes: Buffer): unknown => bytes,
): ServiceDefinition {
  const methods = Object.entries(definition as ServiceDefinition);
  return Object.fromEntries(methods.map(([name, method]) => [name, { ...method, requestDeserialize }]));
}

/** Answers calls with the policies of a backend, about nodes in the call or in a table. */
export class Services {
  private readonly streams = new Set<SyncStream>();
  private readonly watches: Watches;
  private readonly logged = new Set<string>();
  private isStopping = false;
  private showing = 0;

  constructor(
    private readonly backend: Backend,
    private readonly tables: Tables,
    private readonly calls: Calls,
    private readonly log: Log,
  ) {
    this.watches = new Watches(backend, (method, thrown) => this.failed(method, thrown));
  }

  /** Serves them. */
  addTo(server: Server): void {
    server.addService(undecoded(PolicyServiceService), {
      getInfo: (call: Unary, answer: sendUnaryData<unknown>) => {
        const followed = this.calls.follow(call.metadata, 'GetInfo');
        const error = this.reply('GetInfo', answer, () => answerInfo(this.backend, call.request));
        const { code, message } = outcome(error);
        followed.end(code, message);
      },
      filter: this.question(() => 'Filter'),
      score: this.question(() => 'Score'),
      preempt: this.question(() => 'Preempt'),
      bind: (call: Unary, answer: sendUnaryData<unknown>) => {
        void this.bind(call, answer);
      },
    });
    server.addService(undecoded(HookServiceService), {
      change: this.question(hookIn),
    });
    server.addService(undecoded(IntrospectionServiceService), {
      introspect: (call: Unary, answer: sendUnaryData<unknown>) => {
        void this.introspect(call, answer);
      },
    });
    server.addService(undecoded(OutcomeServiceService), {
      report: (call: Unary, answer: sendUnaryData<unknown>) => {
        void this.report(call, answer);
      },
    });
    // grpc-js keeps what it has made of the request as long as the stream, so this has to be emptied.
    const holder = (bytes: Buffer): Buffer[] => [bytes];
    server.addService(undecoded(WatchServiceService, holder), {
      watch: (call: ServerWritableStream<Buffer[], WatchResponse>) => {
        this.watches.open(call);
      },
    });
    server.addService(undecoded(NodeTableServiceService), {
      syncNodes: (call: ServerDuplexStream<Buffer, SyncNodesResponse>) => {
        const stream = new SyncStream(call, this.tables, (ended) => {
          this.streams.delete(ended);
        });
        this.streams.add(stream);
        if (this.isStopping) {
          stream.stop();
        }
      },
    });
  }

  /** Ends all streams, because open ones would delay draining. The tables stay for the calls that still arrive. */
  stop(): void {
    this.isStopping = true;
    this.watches.stop();
    for (const stream of [...this.streams]) {
      stream.stop();
    }
  }

  private question(verbOf: (message: Buffer) => QuestionVerb | typeof NO_HOOK) {
    const { backend, tables } = this;
    return (call: Unary, reply: sendUnaryData<unknown>): void => {
      const { request: message } = call;
      const verb = verbOf(message);
      const followed = this.calls.follow(call.metadata, verb);
      const { note } = followed;
      const error = followed.run(() =>
        this.reply(verb, reply, () =>
          verb === NO_HOOK
            ? refuseHook(backend, message)
            : answerVerb(verb, { backend, tables, message, note }),
        ),
      );
      const { code, message: why } = outcome(error);
      followed.end(code, why);
    };
  }

  /** Sends the answer, or the error that it threw: a bug that one pod triggers must not stop a cluster. */
  private reply(method: string, answer: sendUnaryData<unknown>, work: () => unknown): CallError | undefined {
    let value: unknown;
    try {
      value = work();
    } catch (thrown) {
      const error = this.failed(method, thrown);
      answer(error.status);
      return error;
    }
    answer(null, value);
    return undefined;
  }

  private async bind(call: Unary, answer: sendUnaryData<unknown>): Promise<void> {
    const followed = this.calls.follow(call.metadata, 'Bind');
    const signal = cancellation(call);
    try {
      const asked = { signal, note: followed.note };
      const response = await followed.run(() => answerBind(this.backend, call.request, asked));
      answer(null, response);
      followed.end(signal.aborted ? status.CANCELLED : status.OK, '');
    } catch (thrown) {
      const error = this.failed('Bind', thrown);
      answer(error.status);
      followed.end(signal.aborted ? status.CANCELLED : error.code, error.message);
    }
  }

  private async introspect(call: Unary, answer: sendUnaryData<unknown>): Promise<void> {
    this.showing++;
    try {
      if (this.showing > MAX_SHOWN) {
        throw CallError.unavailable('too many such requests; try again later');
      }
      answer(null, await answerIntrospect(this.backend, call.request, cancellation(call)));
    } catch (thrown) {
      answer(this.failed('Introspect', thrown).status);
    } finally {
      this.showing--;
    }
  }

  private async report(call: Unary, answer: sendUnaryData<unknown>): Promise<void> {
    const followed = this.calls.follow(call.metadata, OBSERVE);
    try {
      answer(null, await followed.run(() => answerReport(this.backend, call.request, followed.note)));
      followed.end(status.OK, '');
    } catch (thrown) {
      const error = this.failed(OBSERVE, thrown);
      answer(error.status);
      followed.end(error.code, error.message);
    }
  }

  /** The error of a call. A bug is logged once. */
  private failed(method: string, thrown: unknown): CallError {
    const error = callError(method, thrown);
    const stack = bugStack(thrown);
    if (stack !== undefined && this.logged.size < MAX_LOGGED && !this.logged.has(stack)) {
      this.logged.add(stack);
      const line = `${error.message}; this is logged once, correct the policy`;
      this.log(stack === error.message ? line : `${line}:\n${stack}`);
    }
    return error;
  }
}

/** The hook that a request is for. What is wrong with a request for none is said when it is answered. */
function hookIn(message: Buffer): HookName | typeof NO_HOOK {
  try {
    return hookOf(readHook(message)) ?? NO_HOOK;
  } catch {
    return NO_HOOK;
  }
}

/** Aborts when the caller cancels or the deadline passes. */
function cancellation(call: Unary): AbortSignal {
  const canceled = new AbortController();
  call.on('cancelled', () => {
    canceled.abort();
  });
  return canceled.signal;
}

/** One stream of a node table: one message in, one acknowledgement out, until the stream ends. */
class SyncStream {
  private readonly filling: Filling;
  private isEnded = false;

  constructor(
    private readonly call: ServerDuplexStream<Buffer, SyncNodesResponse>,
    tables: Tables,
    private readonly ended: (stream: SyncStream) => void,
  ) {
    this.filling = new Filling(tables);
    call.on('data', (message: Buffer) => {
      call.pause();
      void this.exchange(message);
    });
    call.on('end', () => {
      this.close();
      call.end();
    });
    call.on('cancelled', () => {
      this.close();
    });
    call.on('close', () => {
      this.close();
    });
  }

  /** Ends the stream because the backend shuts down. */
  stop(): void {
    if (!this.isEnded) {
      this.isEnded = true;
      this.filling.close(true);
      this.ended(this);
      this.fail(CallError.unavailable('this backend is shutting down'));
    }
  }

  private async exchange(message: Buffer): Promise<void> {
    try {
      const request = decoding(() => {
        checkSize(message, SYNC_NODES);
        return readSync(message);
      });
      const applied = await this.filling.apply(request);
      if (!this.isEnded) {
        this.call.write({ applied });
        this.call.resume();
      }
    } catch (thrown) {
      if (!this.isEnded) {
        this.close();
        this.fail(callError('SyncNodes', thrown));
      }
    }
  }

  private fail(error: CallError): void {
    this.call.emit('error', error.status);
    // Whatever still arrives is of no use.
    this.call.resume();
  }

  private close(): void {
    if (!this.isEnded) {
      this.isEnded = true;
      this.filling.close();
      this.ended(this);
    }
  }
}
