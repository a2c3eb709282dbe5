/**
 * The operator's arguments for one configured policy: JSON, read into the policy's own type by a schema. A schema checks
 * everything and reports all mistakes together, each with its path.
 *
 * ```ts
 * const schema = args.object({ zone: args.string(), most: args.integer({ min: 1, max: 1000 }).default(3) });
 * type Zones = args.Infer<typeof schema>;
 * const backend = Backend.configured(schema, (zones) => new Closed(zones));
 * ```
 */

import { ArgsError } from './errors.js';
import { ARGS_BYTES } from './limits.js';
import { quoted } from './text.js';

/** What a value is read into, and the mistakes that are found meanwhile. */
class Reading {
  readonly mistakes: string[] = [];

  wrong(path: string, sentence: string): void {
    this.mistakes.push(`${path}: ${sentence}`);
  }
}

/** The value of a field that has a mistake; it never reaches the policy. */
const MISTAKEN = undefined as never;

/** Reads a value of JSON into a `T`. */
export abstract class Schema<T> {
  /** Reads a value that is there. @internal */
  abstract read(value: unknown, path: string, reading: Reading): T;

  /** Reads a field that is not there. @internal */
  absent(field: string, path: string, reading: Reading): T {
    reading.wrong(path, `missing field \`${field}\``);
    return MISTAKEN;
  }

  /** The same, and this value if the field is not there. */
  default(value: T): Schema<T> {
    return new WithDefault<T, T>(this, () => value);
  }

  /** The same, and undefined if the field is not there. */
  optional(): Schema<T | undefined> {
    return new WithDefault<T, undefined>(this, () => undefined);
  }

  /**
   * What the function makes of the value. It may throw an error with a sentence that says what is expected, which is
   * reported with the path.
   */
  map<U>(convert: (value: T) => U): Schema<U> {
    return new Mapped(this, convert);
  }
}

/** The type that a schema reads. */
export type Infer<S> = S extends Schema<infer T> ? T : never;

/** Any schema that implements Standard Schema, such as those of zod, valibot and arktype. It must not be asynchronous. */
export interface StandardSchema<T> {
  readonly '~standard': {
    readonly validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>;
    readonly types?: { readonly output: T } | undefined;
  };
}

/** A result of {@link StandardSchema}. */
export type StandardResult<T> =
  { readonly value: T; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] };

/** A mistake that a {@link StandardSchema} found. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

class WithDefault<T, D> extends Schema<T | D> {
  constructor(
    private readonly schema: Schema<T>,
    private readonly value: () => D,
  ) {
    super();
  }

  override read(value: unknown, path: string, reading: Reading): T {
    return this.schema.read(value, path, reading);
  }

  override absent(): D {
    return this.value();
  }
}

class Mapped<T, U> extends Schema<U> {
  constructor(
    private readonly schema: Schema<T>,
    private readonly convert: (value: T) => U,
  ) {
    super();
  }

  override read(value: unknown, path: string, reading: Reading): U {
    return this.converted(path, reading, () => this.schema.read(value, path, reading));
  }

  override absent(field: string, path: string, reading: Reading): U {
    return this.converted(path, reading, () => this.schema.absent(field, path, reading));
  }

  private converted(path: string, reading: Reading, read: () => T): U {
    const before = reading.mistakes.length;
    const value = read();
    if (reading.mistakes.length > before) {
      return MISTAKEN;
    }
    try {
      return this.convert(value);
    } catch (error) {
      reading.wrong(path, error instanceof Error ? error.message : String(error));
      return MISTAKEN;
    }
  }
}

class Primitive<T> extends Schema<T> {
  constructor(
    private readonly expected: string,
    private readonly accepts: (value: unknown) => value is T,
    private readonly problem: (value: T) => string | undefined = () => undefined,
  ) {
    super();
  }

  override read(value: unknown, path: string, reading: Reading): T {
    if (!this.accepts(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected ${this.expected}`);
      return MISTAKEN;
    }
    const problem = this.problem(value);
    if (problem !== undefined) {
      reading.wrong(path, `invalid value: ${described(value)}, expected ${problem}`);
    }
    return value;
  }
}

/** Bounds of a number or of a length, both included. */
export interface Bounds {
  readonly min?: number;
  readonly max?: number;
}

function outside(value: number, { min = -Infinity, max = Infinity }: Bounds): boolean {
  return value < min || value > max;
}

function range({ min, max }: Bounds): string {
  if (min !== undefined && max !== undefined) {
    return `${String(min)} to ${String(max)}`;
  }
  return min === undefined ? `at most ${String(max)}` : `at least ${String(min)}`;
}

/** A text; `min` and `max` are of its length. */
export function string(bounds: Bounds = {}): Schema<string> {
  return new Primitive(
    'a string',
    (value) => typeof value === 'string',
    (value) => (outside(value.length, bounds) ? `a string of ${range(bounds)} characters` : undefined),
  );
}

/** A whole number that JavaScript represents exactly. */
export function integer(bounds: Bounds = {}): Schema<number> {
  return new Primitive(
    bounds.min === undefined && bounds.max === undefined ? 'an integer' : `an integer, ${range(bounds)}`,
    (value): value is number => Number.isSafeInteger(value),
    (value) => (outside(value, bounds) ? `an integer, ${range(bounds)}` : undefined),
  );
}

/** A number. */
export function number(bounds: Bounds = {}): Schema<number> {
  return new Primitive(
    'a number',
    (value): value is number => typeof value === 'number' && Number.isFinite(value),
    (value) => (outside(value, bounds) ? `a number, ${range(bounds)}` : undefined),
  );
}

/** True or false. */
export function boolean(): Schema<boolean> {
  return new Primitive('a boolean', (value) => typeof value === 'boolean');
}

/** One of these texts. */
export function oneOf<const T extends readonly string[]>(...values: T): Schema<T[number]> {
  const isOne = (value: string): value is T[number] => values.includes(value);
  return string().map((value) => {
    if (!isOne(value)) {
      throw new ArgsError(`unknown value ${quoted(value)}, expected ${alternatives(values)}`);
    }
    return value;
  });
}

class List<T> extends Schema<readonly T[]> {
  constructor(
    private readonly item: Schema<T>,
    private readonly bounds: Bounds,
  ) {
    super();
  }

  override read(value: unknown, path: string, reading: Reading): readonly T[] {
    if (!Array.isArray(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected a list`);
      return MISTAKEN;
    }
    if (outside(value.length, this.bounds)) {
      reading.wrong(path, `invalid length ${String(value.length)}, expected ${range(this.bounds)} entries`);
      return MISTAKEN;
    }
    return value.map((item: unknown, at) => this.item.read(item, `${path}[${String(at)}]`, reading));
  }
}

/** A list; `min` and `max` are of its length. */
export function list<T>(item: Schema<T>, bounds: Bounds = {}): Schema<readonly T[]> {
  return new List(item, bounds);
}

class Dictionary<T> extends Schema<ReadonlyMap<string, T>> {
  constructor(private readonly value: Schema<T>) {
    super();
  }

  override read(value: unknown, path: string, reading: Reading): ReadonlyMap<string, T> {
    if (!isObject(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected an object`);
      return MISTAKEN;
    }
    return new Map(
      Object.entries(value).map(([key, entry]) => [key, this.value.read(entry, at(path, key), reading)]),
    );
  }
}

/** An object with any keys. */
export function dictionary<T>(value: Schema<T>): Schema<ReadonlyMap<string, T>> {
  return new Dictionary(value);
}

type Shape = Readonly<Record<string, Schema<unknown>>>;

/** The type of an object with these fields. */
export type InferShape<F extends Shape> = { readonly [K in keyof F]: Infer<F[K]> };

class ObjectSchema<F extends Shape> extends Schema<InferShape<F>> {
  constructor(private readonly fields: F) {
    super();
  }

  override read(value: unknown, path: string, reading: Reading): InferShape<F> {
    if (!isObject(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected an object`);
      return MISTAKEN;
    }
    const names = Object.keys(this.fields);
    for (const name of Object.keys(value)) {
      if (!Object.hasOwn(this.fields, name)) {
        const expected = names.length === 0 ? 'there are no fields' : `expected ${alternatives(names)}`;
        reading.wrong(at(path, name), `unknown field \`${name}\`, ${expected}`);
      }
    }
    const read = Object.entries(this.fields).map(([name, schema]) => [
      name,
      Object.hasOwn(value, name)
        ? schema.read(value[name], at(path, name), reading)
        : schema.absent(name, path, reading),
    ]);
    return Object.fromEntries(read) as InferShape<F>;
  }
}

/** An object with these fields and no others. */
export function object<const F extends Shape>(fields: F): Schema<InferShape<F>> {
  return new ObjectSchema(fields);
}

/** The JSON of args: one object. @throws {ArgsError} */
export function parseJson(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  if (bytes.length > ARGS_BYTES) {
    throw new ArgsError(
      `args has ${String(bytes.length)} bytes; at most ${String(ARGS_BYTES)} are allowed, put longer lists into a file of the policy`,
    );
  }
  const text = utf8(bytes).trim();
  let json: unknown;
  try {
    json = text === '' ? {} : JSON.parse(text);
  } catch (error) {
    throw new ArgsError(`args: ${error instanceof Error ? error.message : 'no JSON'}`);
  }
  if (!isObject(json)) {
    throw new ArgsError('args is not a JSON object; write `args: {name: value}`');
  }
  return json;
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ArgsError('args is not UTF-8; it is one JSON object in UTF-8');
  }
}

/** For policies that take no arguments. @throws {ArgsError} */
export function refuseAny(bytes: Uint8Array): void {
  if (bytes.length > 0 && Object.keys(parseJson(bytes)).length > 0) {
    throw new ArgsError('this policy takes no args; remove `args` from its entry in the configuration');
  }
}

/** Reads args with a schema. @throws {ArgsError} with all mistakes */
export function readArgs<T>(schema: Schema<T> | StandardSchema<T>, bytes: Uint8Array): T {
  const json = parseJson(bytes);
  if ('~standard' in schema) {
    return validated(schema, json);
  }
  const reading = new Reading();
  const value = schema.read(json, 'args', reading);
  if (reading.mistakes.length > 0) {
    throw new ArgsError(reading.mistakes.join('; '));
  }
  return value;
}

function validated<T>(schema: StandardSchema<T>, json: unknown): T {
  const result = schema['~standard'].validate(json);
  if (result instanceof Promise) {
    throw new TypeError('the schema of the args is asynchronous; use one that is not');
  }
  if (result.issues === undefined) {
    return result.value;
  }
  throw new ArgsError(result.issues.map(issue).join('; '));
}

function issue({ message, path = [] }: StandardIssue): string {
  const keys = path.map((part) => (typeof part === 'object' ? part.key : part));
  const where = keys.map((key) => (typeof key === 'number' ? `[${String(key)}]` : `.${String(key)}`));
  return `args${where.join('')}: ${message}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function at(path: string, key: string): string {
  return `${path}.${key}`;
}

function alternatives(names: readonly string[]): string {
  const listed = names.map((name) => `\`${name}\``);
  return listed.length === 2
    ? listed.join(' or ')
    : listed.length === 1
      ? (listed[0] ?? '')
      : `one of ${listed.join(', ')}`;
}

function described(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `string ${quoted(value)}`;
    case 'number':
      return `${Number.isInteger(value) ? 'integer' : 'number'} \`${String(value)}\``;
    case 'boolean':
      return `boolean \`${String(value)}\``;
    default:
      return value === null ? 'null' : Array.isArray(value) ? 'a list' : 'an object';
  }
}
