/**
 * The tables of nodes that gateways keep here, so that calls name nodes by numbers. A table belongs to its stream and is
 * dropped with it. It is found only by its random name, so several gateways, and several selections of one gateway, never
 * share one.
 */

import { setImmediate } from 'node:timers/promises';

import { CallError } from './errors.js';
import type { MapReads, NodeReads } from './gen/extender/policy/v1beta1/info.js';
import { KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS, TABLE_BYTES } from './limits.js';
import { rowsKey, rowTerms } from './reads/layout.js';
import { whyMalformed, type SyncRequest, type Upsert } from './request.js';
import { Row, type RowTerms } from './row.js';
import { quoted } from './text.js';

/** More tables than this are rejected: enough for 16 gateways with four selections each. */
const MAX_TABLES = 64;

/** Rows of more bytes than this, in all tables together, are rejected. */
const MAX_BYTES = 1 << 30;

/** The memory of a row besides its bytes: its objects, and its place in the table. */
const ROW_OVERHEAD_BYTES = 640;

/** The memory of a taint, an image or an address that is decoded, besides its bytes. */
const LISTED_BYTES = 96;

/** After this many milliseconds of checking rows other calls are served. */
const STEP_MILLISECONDS = 2;

/** How many rows are checked between two looks at the clock. */
const ROWS_AT_ONCE = 32;

/** What the rows of a table contain. */
interface Holds {
  /** Of the declaration. */
  readonly readsKey: string;
  readonly row: RowTerms;
}

/** Rows by id, at a version. */
export class Table {
  private readonly rows = new Map<number, Row>();
  /** That of the message that was applied last. */
  version = 0n;
  private space = 0;

  constructor(
    /** What its rows contain. */
    readonly holds: Holds,
    private readonly tables: Tables,
  ) {}

  get size(): number {
    return this.rows.size;
  }

  /** The row of a node. A removed row is not kept for calls in transit: they are answered with a miss. */
  row(id: number): Row | undefined {
    return this.rows.get(id);
  }

  /** Applies a message at once: nothing else runs meanwhile, so a call sees all of it or none. */
  apply(version: bigint, upserts: readonly Checked[], removed: readonly number[]): void {
    this.version = version;
    for (const { id, row } of upserts) {
      this.release(id);
      this.rows.set(id, row);
      this.space += spaceOf(row);
    }
    // Wins over an upsert of the same id: a removed row does not come back.
    for (const id of removed) {
      this.release(id);
      this.rows.delete(id);
    }
  }

  /** Gives back the space of all rows. */
  drop(): void {
    this.tables.release(this.space);
    this.space = 0;
  }

  private release(id: number): void {
    const row = this.rows.get(id);
    if (row !== undefined) {
      this.tables.release(spaceOf(row));
      this.space -= spaceOf(row);
    }
  }
}

/** A row that is not part of the table yet. Its space is taken. */
interface Checked {
  readonly id: number;
  readonly row: Row;
}

/** Facts are there twice when they are in use: encoded, and decoded. */
function spaceOf(row: Row): number {
  return ROW_OVERHEAD_BYTES + row.size + 3 * row.factsSize + LISTED_BYTES * row.listed;
}

/** The tables of one server. */
export class Tables {
  private readonly byName = new Map<string, Table>();
  private used = 0;

  constructor(
    private readonly maxTables = MAX_TABLES,
    private readonly maxBytes = MAX_BYTES,
  ) {}

  /** How many there are. */
  get count(): number {
    return this.byName.size;
  }

  /** How many rows they have. */
  get nodes(): number {
    return [...this.byName.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** The table of this name, if its stream is open. */
  find(name: string): Table | undefined {
    return this.byName.get(name);
  }

  /** A new table without rows, for a stream. */
  open(name: string, holds: Holds): Table {
    if (this.byName.has(name)) {
      throw CallError.invalid(`table ${quoted(name)} already has a stream; names of tables must be random`);
    }
    if (this.byName.size >= this.maxTables) {
      throw CallError.overloaded(`this backend already holds ${String(this.maxTables)} tables, the maximum`);
    }
    const table = new Table(holds, this);
    this.byName.set(name, table);
    return table;
  }

  /** Calls no longer find the table. */
  close(name: string): void {
    this.byName.get(name)?.drop();
    this.byName.delete(name);
  }

  /** Takes space for a row. */
  take(row: Row): void {
    if (this.used + spaceOf(row) > this.maxBytes) {
      throw CallError.overloaded(
        `the rows of all tables would need more than ${String(this.maxBytes)} bytes; more are refused`,
      );
    }
    this.used += spaceOf(row);
  }

  /** Gives back this many bytes. */
  release(bytes: number): void {
    this.used -= bytes;
  }
}

/** A table that one stream fills. */
export class Filling {
  private table: Table | undefined;
  private name = '';
  private isComplete = false;
  private isClosed = false;

  constructor(private readonly tables: Tables) {}

  /** Applies a message whole or not at all, and returns the table's new version. */
  async apply(message: SyncRequest): Promise<bigint> {
    const table = (this.table ??= this.begin(message));
    this.check(table, message);
    const upserts = await this.checked(table, message.upserts);
    if (!this.isClosed) {
      table.apply(message.version, upserts, message.removed);
      this.isComplete ||= message.complete;
    }
    return message.version;
  }

  /** The stream has ended. The table is dropped, unless the backend is shutting down: calls may still arrive. */
  close(isShuttingDown = false): void {
    this.isClosed = true;
    if (this.table !== undefined && !isShuttingDown) {
      this.tables.close(this.name);
    }
  }

  private begin(first: SyncRequest): Table {
    checkName(first.table);
    const table = this.tables.open(first.table, holds(first.reads));
    this.name = first.table;
    return table;
  }

  private check(table: Table, { table: name, version, complete }: SyncRequest): void {
    if (name !== this.name) {
      throw CallError.invalid(
        `table is no longer ${quoted(this.name)}; it is the same in all messages of a stream`,
      );
    }
    if (version <= table.version) {
      throw CallError.invalid(
        `version is ${String(version)} and was ${String(table.version)}; it grows with each message`,
      );
    }
    if (complete && this.isComplete) {
      throw CallError.invalid('complete is set twice; set it in one message of a stream');
    }
  }

  /** Thousands of rows in one go would block calls for milliseconds. */
  private async checked(table: Table, upserts: readonly Upsert[]): Promise<readonly Checked[]> {
    const checked: Checked[] = [];
    let began = performance.now();
    try {
      for (const [position, upsert] of upserts.entries()) {
        checked.push(this.taken(table, position, upsert));
        if (position % ROWS_AT_ONCE === ROWS_AT_ONCE - 1 && performance.now() - began > STEP_MILLISECONDS) {
          await setImmediate();
          if (this.isClosed) {
            break;
          }
          began = performance.now();
        }
      }
    } catch (error) {
      this.drop(checked);
      throw error;
    }
    return this.isClosed ? this.drop(checked) : checked;
  }

  /** Rows that do not become part of the table. */
  private drop(rows: readonly Checked[]): readonly Checked[] {
    this.tables.release(rows.reduce((sum, { row }) => sum + spaceOf(row), 0));
    return [];
  }

  private taken(table: Table, position: number, upsert: Upsert): Checked {
    const row = checkedRow(table.holds.row, position, upsert);
    this.tables.take(row);
    return { id: upsert.id, row };
  }
}

function checkName(name: string): void {
  if (name === '') {
    throw CallError.invalid('table is missing; it is a random text, the same in all messages of a stream');
  }
  if (name.length > TABLE_BYTES || !/^[ -~]*$/.test(name)) {
    throw CallError.invalid(
      `table is no text of at most ${String(TABLE_BYTES)} bytes of printable ASCII, which the name of a table is`,
    );
  }
}

function checkedRow(terms: RowTerms, position: number, { id, row: encoded }: Upsert): Row {
  const where = `upserts[${String(position)}]`;
  if (id === 0 || encoded === undefined) {
    const field = id === 0 ? 'id' : 'row';
    throw CallError.invalid(`${where}.${field} is missing; every entry has an id of at least 1 and a row`);
  }
  // A copy: a slice of the message would keep all of it in memory.
  const row = readRow(() => `${where}.row`, Buffer.from(encoded));
  const wrong = row.wrong(terms, "the table's reads have it");
  if (wrong !== undefined) {
    throw CallError.invalid(`${where}.row.${wrong}`);
  }
  return row;
}

/** A row of a message; an error names it. */
export function readRow(where: () => string, encoded: Buffer): Row {
  try {
    return Row.read(encoded);
  } catch (error) {
    throw CallError.invalid(`${where()} is not a NodeRow: ${whyMalformed(error)}`);
  }
}

function holds(reads: NodeReads | undefined): Holds {
  if (reads === undefined) {
    throw CallError.invalid('reads is missing; the first message says what the rows contain');
  }
  checkReads(reads);
  return { readsKey: rowsKey(reads), row: rowTerms(reads) };
}

/** The table keeps its declaration, and no gateway sends more than it accepts from a backend. */
function checkReads({ parts, labels, annotations, podCounts }: NodeReads): void {
  const wrong = (what: string, given: number, most: number): void => {
    if (given > most) {
      throw CallError.invalid(`reads has ${String(given)} ${what}; expected at most ${String(most)}`);
    }
  };
  wrong('parts', parts.length, READ_PARTS);
  wrong('pod_counts', podCounts.length, READ_COUNTS);
  const texts = (map: MapReads | undefined): string[] => [...(map?.keys ?? []), ...(map?.prefixes ?? [])];
  const keys = [...texts(labels), ...texts(annotations)];
  const long = [...keys, ...podCounts.map(({ label }) => label)].find(
    (key) => Buffer.byteLength(key) > KEY_BYTES,
  );
  if (long !== undefined) {
    throw CallError.invalid(
      `reads has a key or prefix of ${String(Buffer.byteLength(long))} bytes; expected at most ${String(KEY_BYTES)}`,
    );
  }
  wrong('keys and prefixes', keys.length, READ_KEYS);
}
