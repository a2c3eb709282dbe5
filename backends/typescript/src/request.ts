/**
 * The messages with nodes as this package decodes them: like the generated ones, but the rows stay encoded. A generated
 * row is some fifty objects, and most policies look at a label or two.
 */

import { BinaryReader } from '@bufbuild/protobuf/wire';

import type { VerbName } from './declaration/names.js';
import { CallError } from './errors.js';
import { NodeReads } from './gen/extender/policy/v1beta1/info.js';
import { Call, Candidate } from './gen/extender/policy/v1beta1/policy.js';
import { Pod } from './gen/extender/policy/v1beta1/pod.js';
import { Fields, Malformed } from './wire.js';

/** The nodes of a request. The form is undefined if it is none that this package knows. */
export interface NodesRequest {
  count: number;
  form: InlineNodes | TableNodes | undefined;
}

/** Nodes in the request. */
export interface InlineNodes {
  readonly kind: 'rows';
  /** Encoded. */
  readonly rows: Buffer[];
}

/** Nodes of a table. */
export interface TableNodes {
  readonly kind: 'table';
  table: string;
  atLeast: bigint;
  readonly ids: number[];
  /** Encoded. */
  readonly rows: Buffer[];
}

/** The methods with a request about a pod, and mostly nodes. */
export type QuestionVerb = Exclude<VerbName, 'Bind'>;

/** The requests of these methods. */
export interface Question {
  call: Call | undefined;
  pod: Pod | undefined;
  nodes: NodesRequest | undefined;
  wantScores: boolean;
  readonly candidates: Candidate[];
}

/** SyncNodesRequest. */
export interface SyncRequest {
  table: string;
  version: bigint;
  reads: NodeReads | undefined;
  readonly upserts: Upsert[];
  readonly removed: number[];
  complete: boolean;
}

/** TableEntry. */
export interface Upsert {
  id: number;
  /** Encoded. */
  row: Buffer | undefined;
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes a generated message; a text that is not UTF-8 is an error. */
export function decode<T>(message: { decode(reader: BinaryReader): T }, bytes: Uint8Array): T {
  return message.decode(new BinaryReader(bytes, (text) => strict.decode(text)));
}

/** What `read` returns; an error of the encoding becomes one of the call. */
export function decoding<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof CallError) {
      throw error;
    }
    const why = error instanceof Error ? error.message : String(error);
    throw CallError.invalid(`the message cannot be decoded: ${why}`);
  }
}

/** `Call` of an encoded request of any verb. */
export function readCall(request: Buffer): Call | undefined {
  let call: Buffer | undefined;
  const fields = new Fields(request);
  while (fields.next()) {
    if (fields.number === 1) {
      call = joined(call, fields.slice());
    }
  }
  return call && decode(Call, call);
}

/** `ChangeRequest.hook` of an encoded request. */
export function readHook(request: Buffer): number {
  let hook = 0;
  const fields = new Fields(request);
  while (fields.next()) {
    if (fields.number === 4) {
      hook = fields.uint32();
    }
  }
  return hook;
}

/** A request about nodes. */
export function readQuestion(request: Buffer, verb: QuestionVerb): Question {
  const question: Question = {
    call: undefined,
    pod: undefined,
    nodes: undefined,
    wantScores: false,
    candidates: [],
  };
  let call: Buffer | undefined;
  let pod: Buffer | undefined;
  const fields = new Fields(request);
  while (fields.next()) {
    switch (fields.number) {
      case 1:
        call = joined(call, fields.slice());
        break;
      case 2:
        pod = joined(pod, fields.slice());
        break;
      case 3:
        question.nodes ??= { count: 0, form: undefined };
        // That hook has none, so they are refused.
        if (verb !== 'BeforeFilter') {
          readNodes(question.nodes, fields.message());
        }
        break;
      case 4:
        if (verb === 'Filter') {
          question.wantScores = fields.bool();
        } else if (verb === 'Preempt') {
          question.candidates.push(decode(Candidate, fields.slice()));
        }
        break;
    }
  }
  question.call = call && decode(Call, call);
  question.pod = pod && decode(Pod, pod);
  return question;
}

function readNodes(nodes: NodesRequest, fields: Fields): void {
  while (fields.next()) {
    switch (fields.number) {
      case 1:
        nodes.count = fields.uint32();
        break;
      case 2: {
        const form: InlineNodes = nodes.form?.kind === 'rows' ? nodes.form : { kind: 'rows', rows: [] };
        readRows(form.rows, 1, fields.message());
        nodes.form = form;
        break;
      }
      case 3: {
        const form: TableNodes =
          nodes.form?.kind === 'table'
            ? nodes.form
            : { kind: 'table', table: '', atLeast: 0n, ids: [], rows: [] };
        readTableNodes(form, fields.message());
        nodes.form = form;
        break;
      }
    }
  }
}

function readRows(rows: Buffer[], number: number, fields: Fields): void {
  while (fields.next()) {
    if (fields.number === number) {
      rows.push(fields.slice());
    }
  }
}

function readTableNodes(form: TableNodes, fields: Fields): void {
  while (fields.next()) {
    switch (fields.number) {
      case 2:
        form.atLeast = fields.uint64();
        break;
      case 3:
        fields.uint32s(form.ids);
        break;
      case 4:
        form.rows.push(fields.slice());
        break;
      case 5:
        form.table = readText(fields);
        break;
    }
  }
}

/** A message of a stream that fills a table. */
export function readSync(message: Buffer): SyncRequest {
  const request: SyncRequest = {
    table: '',
    version: 0n,
    reads: undefined,
    upserts: [],
    removed: [],
    complete: false,
  };
  let reads: Buffer | undefined;
  const fields = new Fields(message);
  while (fields.next()) {
    switch (fields.number) {
      case 2:
        request.version = fields.uint64();
        break;
      case 4:
        request.upserts.push(readUpsert(fields.message()));
        break;
      case 5:
        fields.uint32s(request.removed);
        break;
      case 6:
        request.complete = fields.bool();
        break;
      case 7:
        request.table = readText(fields);
        break;
      case 8:
        reads = joined(reads, fields.slice());
        break;
    }
  }
  request.reads = reads && decode(NodeReads, reads);
  return request;
}

function readText(fields: Fields): string {
  fields.checkText();
  return fields.text();
}

function readUpsert(fields: Fields): Upsert {
  const upsert: Upsert = { id: 0, row: undefined };
  while (fields.next()) {
    if (fields.number === 1) {
      upsert.id = fields.uint32();
    } else if (fields.number === 2) {
      upsert.row = joined(upsert.row, fields.slice());
    }
  }
  return upsert;
}

/** A message that comes in pieces is what the pieces are one after the other. */
function joined(before: Buffer | undefined, piece: Buffer): Buffer {
  return before === undefined ? piece : Buffer.concat([before, piece]);
}

/** The sentence of an error of the encoding. */
export function whyMalformed(error: unknown): string {
  if (error instanceof Malformed) {
    return error.message;
  }
  throw error;
}
