/**
 * Connections of a server: how many there are, how long one may be silent, and how many bytes of requests arrive at a time.
 * grpc-js has no options for these, so they are set at its HTTP/2 servers.
 */

import { readFileSync } from 'node:fs';
import {
  constants,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';

import { MAX_MESSAGE_BYTES } from './declaration.js';

/** How long a connection has to begin, and the message of a call to arrive. */
export const BEGINNING_MILLISECONDS = 10_000;

/** Of requests that are arriving or being answered, over all connections: two of the largest. */
const MAX_BYTES_IN_PROGRESS = 2 * MAX_MESSAGE_BYTES;

/** Gateways keep one connection or two each. */
const MAX_CONNECTIONS = 1_000;

/** The limit of descriptors if the system does not report one: the usual one. */
const USUAL_DESCRIPTORS = 1_024;

/** The compression flag and the length before a message. */
const PREFIX_BYTES = 5;

/** A quarter of the descriptors stays for what the policy opens itself. */
export function mostConnections(limits = readLimits()): number {
  const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(limits) ?? [];
  const descriptors = soft === 'unlimited' ? Infinity : Number(soft ?? USUAL_DESCRIPTORS);
  return Math.max(1, Math.min(MAX_CONNECTIONS, Math.floor((descriptors * 3) / 4)));
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}

/** Follows the connections of a server and their streams. */
export function follow(
  http2: Http2Server,
  beginning = BEGINNING_MILLISECONDS,
  progress = new Progress(MAX_BYTES_IN_PROGRESS, beginning),
): void {
  http2.on('session', (session: ServerHttp2Session) => {
    // Each client begins with its settings.
    const silent = setTimeout(() => {
      session.destroy();
    }, beginning);
    session.once('remoteSettings', () => {
      clearTimeout(silent);
    });
    session.once('close', () => {
      clearTimeout(silent);
    });
  });
  http2.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    progress.follow(stream, headers[':path'] ?? '');
  });
  // Before grpc-js reads the headers: it decompresses what it can, and answers UNIMPLEMENTED to the rest. A few compressed
  // kilobytes become megabytes.
  http2.prependListener('stream', (_stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    const encoding = headers['grpc-encoding'];
    if (typeof encoding === 'string' && encoding !== 'identity') {
      headers['grpc-encoding'] = `${encoding} (this backend reads no compressed messages)`;
    }
  });
}

/** The part of a stream that counts. */
export type CountedStream = Pick<ServerHttp2Stream, 'on' | 'once' | 'close'>;

interface Message {
  bytes: number;
  isComplete: boolean;
}

/** Whether the client sends many messages: each is taken over when it is complete. */
function hasManyMessages(path: string): boolean {
  return path.endsWith('/SyncNodes') || path.endsWith('/ServerReflectionInfo');
}

/**
 * Counts the bytes of messages. Each is limited by itself, but many that are begun and not ended add up. Beyond the limit
 * the largest unfinished one is given up: that of a gateway is complete in milliseconds. grpc-js keeps the message of a
 * call until the client ends its side, and calls the method then: until then it is unfinished, and after some seconds it is
 * given up. One that is complete counts until its answer; that of a watcher of health, who has no end, is never complete,
 * and that of a watcher of changes is not kept.
 */
export class Progress {
  private readonly messages = new Map<CountedStream, Message>();
  bytes = 0;

  constructor(
    private readonly limit: number,
    private readonly milliseconds = BEGINNING_MILLISECONDS,
  ) {}

  follow(stream: CountedStream, path: string): void {
    const counted: Message = { bytes: 0, isComplete: false };
    const parser = new Parser();
    const isMany = hasManyMessages(path);
    this.messages.set(stream, counted);
    stream.on('data', (chunk: Buffer) => {
      parser.add(chunk);
      this.count(stream, isMany && parser.isComplete ? 0 : parser.arrived);
    });
    if (!isMany) {
      this.limitArrival(stream, () => {
        if (path.endsWith('.WatchService/Watch')) {
          this.forget(stream);
        }
        counted.isComplete = !path.endsWith('/Watch');
      });
    }
    stream.once('close', () => {
      this.forget(stream);
    });
  }

  private count(stream: CountedStream, bytes: number): void {
    const counted = this.messages.get(stream);
    if (counted !== undefined) {
      this.bytes += bytes - counted.bytes;
      counted.bytes = bytes;
      if (this.bytes > this.limit) {
        this.giveUpLargest();
      }
    }
  }

  private limitArrival(stream: CountedStream, ended: () => void): void {
    const limit = setTimeout(() => {
      this.giveUp(stream);
    }, this.milliseconds);
    stream.once('end', () => {
      clearTimeout(limit);
      ended();
    });
    stream.once('close', () => {
      clearTimeout(limit);
    });
  }

  private giveUpLargest(): void {
    const unfinished = [...this.messages].filter(([, { isComplete }]) => !isComplete);
    const largest = unfinished.sort(([, a], [, b]) => b.bytes - a.bytes)[0];
    if (largest !== undefined) {
      this.giveUp(largest[0]);
    }
  }

  private giveUp(stream: CountedStream): void {
    this.forget(stream);
    // A client of gRPC reads it as RESOURCE_EXHAUSTED.
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  private forget(stream: CountedStream): void {
    this.bytes -= this.messages.get(stream)?.bytes ?? 0;
    this.messages.delete(stream);
  }
}

/** Finds the messages in the bytes of a stream. */
class Parser {
  private prefix = Buffer.alloc(0);
  private left = 0;
  /** The bytes that have arrived of the last message. */
  arrived = 0;

  /** Whether that message is complete, and nothing of another one has arrived. */
  get isComplete(): boolean {
    return this.left === 0 && this.prefix.length === 0;
  }

  add(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) {
      rest = this.left === 0 ? this.addToPrefix(rest) : this.addToMessage(rest);
    }
  }

  private addToPrefix(chunk: Buffer): Buffer {
    const lacking = PREFIX_BYTES - this.prefix.length;
    this.prefix = Buffer.concat([this.prefix, chunk.subarray(0, lacking)]);
    if (this.prefix.length === PREFIX_BYTES) {
      this.left = this.prefix.readUInt32BE(1);
      this.prefix = Buffer.alloc(0);
      this.arrived = 0;
    }
    return chunk.subarray(lacking);
  }

  private addToMessage(chunk: Buffer): Buffer {
    const here = Math.min(this.left, chunk.length);
    this.left -= here;
    this.arrived += here;
    return chunk.subarray(here);
  }
}
