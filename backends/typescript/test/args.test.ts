import assert from 'node:assert/strict';
import { test } from 'node:test';

import { args, ArgsError, Backend, Info, type Pod, type Node, Policy, Verb, Verdict } from '../src/index.js';
import { type Infer, readArgs, refuseAny, type StandardSchema } from '../src/args.js';
import { filter, info, TestNode, TestPod, withArgs } from '../src/testing.js';

const schema = args.object({
  label: args.string({ min: 1 }),
  weight: args.integer({ min: 1, max: 10 }).default(3),
  share: args.number().optional(),
  mode: args.oneOf('hard', 'soft').default('soft'),
  rules: args.list(args.object({ on: args.boolean() }), { max: 2 }).default([]),
  names: args.dictionary(args.string()).optional(),
});

function read(json: string): unknown {
  return readArgs(schema, Buffer.from(json));
}

test('args are read into the type of the schema', () => {
  const given: Infer<typeof schema> = readArgs(
    schema,
    Buffer.from(
      ' {"label":"rack","weight":10,"share":0.5,"mode":"hard","rules":[{"on":true}],"names":{"a":"b"}} ',
    ),
  );
  assert.deepEqual(given, {
    label: 'rack',
    weight: 10,
    share: 0.5,
    mode: 'hard',
    rules: [{ on: true }],
    names: new Map([['a', 'b']]),
  });
  const least: Partial<typeof given> = given.mode === 'soft' ? given : { label: given.label };
  assert.equal(least.label, 'rack');
});

test('what is wrong is said with its path and what is expected', () => {
  const cases: [string, string][] = [
    ['', 'args: missing field `label`'],
    ['{}', 'args: missing field `label`'],
    ['{"label":null}', 'args.label: invalid type: null, expected a string'],
    ['{"label":""}', 'args.label: invalid value: string "", expected a string of at least 1 characters'],
    ['{"label":"a","weight":"3"}', 'args.weight: invalid type: string "3", expected an integer, 1 to 10'],
    [
      '{"label":"a","weight":9007199254740993}',
      'args.weight: invalid type: integer `9007199254740992`, expected an integer, 1 to 10',
    ],
    [
      '{"label":"a","weight":1e400}',
      'args.weight: invalid type: number `Infinity`, expected an integer, 1 to 10',
    ],
    ['{"label":"a","mode":"odd"}', 'args.mode: unknown value "odd", expected `hard` or `soft`'],
    ['{"label":"a","rules":{}}', 'args.rules: invalid type: an object, expected a list'],
    [
      '{"label":"a","rules":[{"on":true},{"on":1}]}',
      'args.rules[1].on: invalid type: integer `1`, expected a boolean',
    ],
    ['{"label":"a","rules":[{},{},{}]}', 'args.rules: invalid length 3, expected at most 2 entries'],
    ['{"label":"a","names":{"x":[]}}', 'args.names.x: invalid type: a list, expected a string'],
    [
      '{"label":"a","__proto__":{}}',
      'args.__proto__: unknown field `__proto__`, expected one of `label`, `weight`, `share`, `mode`, `rules`, `names`',
    ],
    ['[]', 'args is not a JSON object; write `args: {name: value}`'],
    [
      '{"lable":"a","weight":0}',
      'args.lable: unknown field `lable`, expected one of `label`, `weight`, `share`, `mode`, `rules`, `names`; args: missing field `label`; args.weight: invalid value: integer `0`, expected an integer, 1 to 10',
    ],
  ];
  for (const [json, expected] of cases) {
    assert.throws(() => read(json), { name: 'ArgsError', message: expected });
  }
  assert.throws(() => read('{"label":'), /^ArgsError: args: .*JSON/);
  assert.throws(() => readArgs(schema, Buffer.from([0x7b, 0xff, 0x7d])), /args is not UTF-8/);
});

test('a policy without args accepts none, in any spelling', () => {
  for (const none of ['', '{}', ' { } ']) {
    refuseAny(Buffer.from(none));
  }
  assert.throws(() => {
    refuseAny(Buffer.from('{"a":1}'));
  }, ArgsError);
});

class Counted extends Policy {
  constructor(
    private readonly zone: string,
    private readonly latest: () => Policy | undefined = () => undefined,
  ) {
    super();
  }

  override info(): Info {
    return new Info('counted', '1').revision(this.zone).filters(Verb.perNode());
  }

  override filter(_pod: Pod, _node: Node): Verdict {
    return Verdict.reject(this.zone);
  }

  override current(): Policy {
    return this.latest() ?? this;
  }
}

test('a schema of another library is used as it is', () => {
  const standard: StandardSchema<{ zone: string }> = {
    '~standard': {
      validate: (value) => {
        const { zone } = value as { zone?: unknown };
        return typeof zone === 'string'
          ? { value: { zone } }
          : {
              issues: [
                { message: 'expected a text', path: ['rules', 0, { key: 'zone' }] },
                { message: 'nothing fits' },
              ],
            };
      },
    },
  };
  const backend = Backend.configured(standard, ({ zone }) => new Counted(zone));
  assert.equal(info(withArgs(backend, { zone: 'z' })).revision, 'z');
  assert.throws(() => withArgs(backend, {}), {
    message: 'args.rules[0].zone: expected a text; args: nothing fits',
  });
});

test('at most 16 policies are kept, and those in use stay', () => {
  let built = 0;
  const backend = Backend.configured(args.object({ n: args.integer().default(0) }), ({ n }) => {
    built += 1;
    return new Counted(String(n));
  });
  const use = (n: number): void => {
    assert.equal(
      backend.policyFor(Buffer.from(JSON.stringify({ n }))).declaration.response.revision,
      String(n),
    );
  };
  use(1);
  use(1);
  for (let n = 2; n < 100; n += 1) {
    use(n);
  }
  assert.equal(built, 99);
  use(1);
  assert.equal(built, 99);
  use(50);
  assert.equal(built, 100);
  // Empty, an object without fields, and the same with spaces.
  for (const none of ['', '{}', ' {} ']) {
    backend.policyFor(Buffer.from(none));
  }
  assert.equal(built, 101);
});

test('a policy may hand over to a newer one', () => {
  let hour = 1;
  const at = (wanted: number): Policy =>
    new Counted(`hour ${String(wanted)}`, () => (wanted === hour ? undefined : at(hour)));
  const policy = Backend.of(at(1));
  const asked = (): string[] =>
    filter(policy, new TestPod('shop'), [new TestNode('a')]).map(([, reason]) => reason);
  assert.deepEqual([asked(), info(policy).revision], [['hour 1'], 'hour 1']);
  hour = 2;
  assert.deepEqual([asked(), info(policy).revision], [['hour 2'], 'hour 2']);
});

test('a policy that is replaced while it names a newer one stays replaced', () => {
  const { backend, replace } = Backend.replaceable(
    new Counted('first', () => {
      replace(new Counted('by the program'));
      return new Counted('by itself');
    }),
  );
  assert.equal(info(backend).revision, 'by the program');
});

test('a call asks once for a newer policy, also where other machines reach the backend', () => {
  let asked = 0;
  const backend = Backend.of(new Counted('first', () => void (asked += 1)));
  backend.exposed('must not bind').policyFor(new Uint8Array());
  assert.equal(asked, 1);
});
