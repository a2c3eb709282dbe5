import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Hours, WallClock } from './hours.js';

const berlin = new WallClock('Europe/Berlin');
const ALL = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

function minutes(text: string): number {
  const [hours = 0, rest = 0] = text.split(':').map(Number);
  return hours * 60 + rest;
}

function hours(days: readonly (typeof ALL)[number][], from: string, to: string): Hours {
  return new Hours(berlin, [{ days, from: minutes(from), to: minutes(to) }]);
}

/** `open until ...` or `closed until ...`, in UTC. */
function state(of: Hours, instant: string): string {
  const { isOpen, until } = of.at(Date.parse(instant));
  const end = Number.isFinite(until) ? new Date(until).toISOString().slice(0, 16) : 'ever';
  return `${isOpen ? 'open' : 'closed'} until ${end}`;
}

test('a day has its hours on the clock of the time zone', () => {
  const office = hours(['mon', 'tue', 'wed', 'thu', 'fri'], '08:00', '18:00');
  // In winter Berlin is an hour ahead of UTC.
  assert.equal(state(office, '2026-01-05T06:59:59Z'), 'closed until 2026-01-05T07:00');
  assert.equal(state(office, '2026-01-05T07:00:00Z'), 'open until 2026-01-05T17:00');
  assert.equal(state(office, '2026-01-05T17:00:00Z'), 'closed until 2026-01-06T07:00');
  // From Friday to Monday.
  assert.equal(state(office, '2026-01-09T18:00:00Z'), 'closed until 2026-01-12T07:00');
  // In summer it is two hours.
  assert.equal(state(office, '2026-07-06T06:00:00Z'), 'open until 2026-07-06T16:00');
});

test('hours go over midnight', () => {
  const nights = hours(['fri'], '22:00', '06:00');
  assert.equal(state(nights, '2026-01-09T20:59:00Z'), 'closed until 2026-01-09T21:00');
  assert.equal(state(nights, '2026-01-09T23:30:00Z'), 'open until 2026-01-10T05:00');
  assert.equal(state(nights, '2026-01-10T04:59:00Z'), 'open until 2026-01-10T05:00');
  assert.equal(state(nights, '2026-01-10T05:00:00Z'), 'closed until 2026-01-16T21:00');
});

test('the night on which clocks go forward is an hour shorter', () => {
  // 2026-03-29 at 02:00 it becomes 03:00.
  const nights = hours(ALL, '22:00', '06:00');
  assert.equal(state(nights, '2026-03-28T21:00:00Z'), 'open until 2026-03-29T04:00');
  assert.equal(state(nights, '2026-03-27T21:00:00Z'), 'open until 2026-03-28T05:00');
});

test('the night on which clocks go back is an hour longer', () => {
  // 2026-10-25 at 03:00 it becomes 02:00.
  const nights = hours(ALL, '22:00', '06:00');
  assert.equal(state(nights, '2026-10-24T20:00:00Z'), 'open until 2026-10-25T05:00');
});

test('a time that the day skips is as long after the change', () => {
  // 02:30 does not exist: it is 03:30 in summer time, 01:30 in UTC.
  const early = hours(['sun'], '02:30', '06:00');
  assert.equal(state(early, '2026-03-29T01:29:00Z'), 'closed until 2026-03-29T01:30');
  assert.equal(state(early, '2026-03-29T01:30:00Z'), 'open until 2026-03-29T04:00');
  assert.equal(
    state(hours(['sun'], '00:00', '02:30'), '2026-03-29T01:00:00Z'),
    'open until 2026-03-29T01:30',
  );
});

test('a time that occurs twice closes, and opens, once', () => {
  // 02:30 is at 00:30 and at 01:30 in UTC.
  const late = hours(['sat'], '22:00', '02:30');
  assert.equal(state(late, '2026-10-25T00:29:00Z'), 'open until 2026-10-25T00:30');
  assert.equal(state(late, '2026-10-25T00:30:00Z'), 'closed until 2026-10-31T21:00');
  assert.equal(state(late, '2026-10-25T01:15:00Z'), 'closed until 2026-10-31T21:00');
  const early = hours(['sun'], '02:30', '04:00');
  assert.equal(state(early, '2026-10-25T00:30:00Z'), 'open until 2026-10-25T03:00');
});

test('what is open all week does not close', () => {
  assert.equal(state(hours(ALL, '00:00', '24:00'), '2026-03-28T12:00:00Z'), 'open until ever');
  assert.equal(state(hours(ALL, '08:00', '08:00'), '2026-10-24T12:00:00Z'), 'open until ever');
});

test('openings that touch are one', () => {
  const two = new Hours(berlin, [
    { days: ['mon'], from: minutes('08:00'), to: minutes('12:00') },
    { days: ['mon'], from: minutes('12:00'), to: minutes('24:00') },
    { days: ['tue'], from: minutes('00:00'), to: minutes('02:00') },
  ]);
  assert.equal(state(two, '2026-01-05T08:00:00Z'), 'open until 2026-01-06T01:00');
});

test('over a year, states last as long as they say', () => {
  const odd = new Hours(berlin, [
    { days: ['sun', 'wed'], from: minutes('02:30'), to: minutes('02:45') },
    { days: ['sat'], from: minutes('23:00'), to: minutes('03:00') },
  ]);
  let instant = Date.parse('2026-01-01T00:00:00Z');
  const end = Date.parse('2027-01-01T00:00:00Z');
  let changes = 0;
  while (instant < end) {
    const { isOpen, until } = odd.at(instant);
    assert.ok(until > instant);
    assert.equal(odd.at(until - 1).isOpen, isOpen);
    assert.notEqual(odd.at(until).isOpen, isOpen);
    instant = until;
    changes += 1;
  }
  // Two openings a week, since that of Sundays is inside of the night, but not when clocks go forward.
  assert.equal(changes, 2 * (52 + 52 + 1) + 1);
});
