/** The streams on which gateways learn at once that the handshake has another answer, or that the policy is ready or no longer. */

import type { ServerWritableStream } from '@grpc/grpc-js';

import type { Backend } from './backend.js';
import { sha256 } from './digest.js';
import { CallError } from './errors.js';
import { GetInfoResponse } from './gen/extender/policy/v1beta1/info.js';
import { WatchRequest, type WatchResponse } from './gen/extender/policy/v1beta1/watch.js';
import { decode, decoding } from './request.js';

/** How often the answer is compared; the contract wants a message within a second. */
const INTERVAL_MILLISECONDS = 200;

/** The most streams: those of four gateways with 16 configured policies each. Others call GetInfo each second. */
export const MAX_WATCHES = 64;

/** With the request, until it is taken. */
type Stream = ServerWritableStream<Buffer[], WatchResponse>;

/** The open streams. */
export class Watches {
  private readonly ends = new Set<() => void>();
  private isStopping = false;

  constructor(
    private readonly backend: Backend,
    /** The error of a call for what was thrown. */
    private readonly failed: (method: string, thrown: unknown) => CallError,
  ) {}

  /** Answers a call. */
  open(call: Stream): void {
    const message = call.request.pop() ?? Buffer.alloc(0);
    const fail = (thrown: unknown): void => {
      call.emit('error', this.failed('Watch', thrown).status);
    };
    try {
      if (this.ends.size >= MAX_WATCHES) {
        throw CallError.overloaded(`this backend already has ${String(MAX_WATCHES)} watches, the maximum`);
      }
      const watched = new Watched(this.backend, message);
      call.write({});
      if (this.isStopping) {
        call.end();
      } else {
        this.follow(call, watched, fail);
      }
    } catch (thrown) {
      fail(thrown);
    }
  }

  private follow(call: Stream, watched: Watched, fail: (thrown: unknown) => void): void {
    const timer = setInterval(() => {
      try {
        // A message that the client has not taken yet says the same.
        if (call.writableLength === 0 && watched.hasChanged()) {
          call.write({});
        }
      } catch (thrown) {
        close();
        fail(thrown);
      }
    }, INTERVAL_MILLISECONDS);
    const close = (): void => {
      clearInterval(timer);
      this.ends.delete(end);
    };
    const end = (): void => {
      close();
      call.end();
    };
    this.ends.add(end);
    call.once('cancelled', close).once('close', close);
  }

  /** Ends all streams, because open ones would delay draining. */
  stop(): void {
    this.isStopping = true;
    this.ends.forEach((end) => {
      end();
    });
  }
}

/** What a stream is about. */
class Watched {
  /** By which the policy is found: one that is no longer kept is not built again. */
  private readonly argsSha256: Uint8Array;
  private response: GetInfoResponse | undefined;
  private isReady = false;

  constructor(
    private readonly backend: Backend,
    message: Buffer,
  ) {
    const { args } = decoding(() => decode(WatchRequest, message));
    backend.policyFor(args);
    this.argsSha256 = args.length === 0 ? Buffer.alloc(0) : sha256(args);
    this.hasChanged();
  }

  /** Whether anything is different from the last time. */
  hasChanged(): boolean {
    const { response: before, isReady: wasReady } = this;
    const versions = this.backend.versionsOf({ args: Buffer.alloc(0), argsSha256: this.argsSha256 });
    const { declaration, isReady } = this.backend.latest(versions);
    this.response = declaration.response;
    this.isReady = isReady;
    return isReady !== wasReady || before === undefined || !isEqual(before, declaration.response);
  }
}

function isEqual(a: GetInfoResponse, b: GetInfoResponse): boolean {
  const encoded = (info: GetInfoResponse): Uint8Array => GetInfoResponse.encode(info).finish();
  return a === b || Buffer.compare(encoded(a), encoded(b)) === 0;
}
