/**
 * Opening hours on the clock of a time zone. Each opening is an interval of instants, so a pool neither opens twice nor
 * closes early when the clocks change. A time that a day skips (02:30 when clocks go forward) is as long after the
 * change as it would have been without; of a time that occurs twice, the first occurrence counts. `Temporal` calls this
 * disambiguation "compatible".
 */

import { args } from '@extender-gateway/policy';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Openings are looked for up to this many days ahead; a pool that stays open longer does not close. */
const DAYS_AHEAD = 8;

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

/** A time of day such as 08:30, in minutes; 24:00 is the end of the day. */
const timeOfDay = args.string().map((text) => {
  const [, hours, minutes] = /^(\d{2}):([0-5]\d)$/.exec(text) ?? [];
  const time = Number(hours) * 60 + Number(minutes);
  if (!(time <= 24 * 60)) {
    throw new Error(`invalid time "${text}", expected HH:MM, 00:00 to 24:00`);
  }
  return time;
});

const timeZone = args.string().map((name) => {
  try {
    return new WallClock(name);
  } catch {
    throw new Error(`unknown time zone "${name}", expected an IANA name such as Europe/Berlin`);
  }
});

/** Opening hours in args. A window whose end is not after its begin ends on the next day. */
export const hoursSchema = args
  .object({
    timeZone,
    open: args.list(
      args.object({ days: args.list(args.oneOf(...DAYS), { min: 1 }), from: timeOfDay, to: timeOfDay }),
      { min: 1 },
    ),
  })
  .map(({ timeZone: clock, open }) => new Hours(clock, open));

interface Window {
  /** The days on which it begins. */
  readonly days: readonly (typeof DAYS)[number][];
  /** Minutes since midnight. */
  readonly from: number;
  readonly to: number;
}

/** An interval of instants, in milliseconds since 1970. */
interface Opening {
  readonly from: number;
  readonly to: number;
}

/** Whether something is open at an instant, and until when. */
export interface OpenState {
  readonly isOpen: boolean;
  /** The instant at which it closes, or else opens; infinite if it does neither within a week. */
  readonly until: number;
}

/** When something is open. */
export class Hours {
  constructor(
    private readonly clock: WallClock,
    private readonly windows: readonly Window[],
  ) {}

  /** The state at an instant. */
  at(instant: number): OpenState {
    const openings = this.openingsAround(instant);
    const current = openings.find(({ from, to }) => from <= instant && instant < to);
    if (current !== undefined) {
      return { isOpen: true, until: current.to - instant > (DAYS_AHEAD - 1) * DAY ? Infinity : current.to };
    }
    return { isOpen: false, until: openings.find(({ from }) => from > instant)?.from ?? Infinity };
  }

  /** In ascending order; openings that touch are one. */
  private openingsAround(instant: number): readonly Opening[] {
    const today = this.clock.midnightUtc(instant);
    const openings: Opening[] = [];
    for (let day = -2; day <= DAYS_AHEAD; day += 1) {
      openings.push(...this.openingsOf(today + day * DAY));
    }
    const merged: Opening[] = [];
    for (const opening of openings.toSorted((a, b) => a.from - b.from)) {
      const before = merged.at(-1);
      if (before !== undefined && opening.from <= before.to) {
        merged.splice(-1, 1, { from: before.from, to: Math.max(before.to, opening.to) });
      } else {
        merged.push(opening);
      }
    }
    return merged;
  }

  private openingsOf(midnight: number): readonly Opening[] {
    const day = DAYS[new Date(midnight).getUTCDay()];
    const windows = this.windows.filter(({ days }) => day !== undefined && days.includes(day));
    return windows.map(({ from, to }) => ({
      from: this.clock.instantOf(midnight + from * MINUTE),
      to: this.clock.instantOf(midnight + (to > from ? to : to + 24 * 60) * MINUTE),
    }));
  }
}

/** The clock on the wall of a time zone. Its times are written as if they were in UTC. */
export class WallClock {
  private readonly format: Intl.DateTimeFormat;

  /** @throws for an unknown time zone */
  constructor(timeZoneName: string) {
    this.format = new Intl.DateTimeFormat('en-US', {
      timeZone: timeZoneName,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  /** The midnight that begins the day of this instant. */
  midnightUtc(instant: number): number {
    return Math.floor(this.wallTime(instant) / DAY) * DAY;
  }

  /** The instant of a time on the wall. */
  instantOf(wall: number): number {
    const before = this.offset(wall - DAY);
    const after = this.offset(wall + DAY);
    const first = wall - before;
    if (before === after || this.offset(first) === before) {
      return first;
    }
    const second = wall - after;
    return this.offset(second) === after ? second : first;
  }

  private offset(instant: number): number {
    return this.wallTime(instant) - Math.floor(instant / 1_000) * 1_000;
  }

  /** To the second. */
  private wallTime(instant: number): number {
    const parts = new Map(this.format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
    const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
    return Date.UTC(
      part('year'),
      part('month') - 1,
      part('day'),
      part('hour'),
      part('minute'),
      part('second'),
    );
  }
}
