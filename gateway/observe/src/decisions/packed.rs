//! Compact lists of numbers: most are runs, or small.

use std::iter;

/// The approximate overhead of an allocation, in bytes.
const ALLOCATION: usize = 16;

/// Numbers below this are written as one byte.
const ONE_BYTE: u32 = 0x80;

/// Room for some runs, so that the buffer seldom grows.
const USUAL: usize = 64;

/// Numbers in any order, mostly consecutive: positions and ids of nodes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Runs(Box<[u8]>);

impl Runs {
    /// Packs these numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut runs = RunsSoFar::default();
        numbers.into_iter().for_each(|number| runs.push(number, 1));
        runs.done()
    }

    /// The numbers in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs().flat_map(|(start, len)| (0..len).map(move |at| start + at))
    }

    /// How many numbers there are, which takes a step for each run.
    pub(super) fn count(&self) -> u64 {
        self.runs().map(|(_, len)| u64::from(len)).sum()
    }

    /// The first number and the length of each run.
    fn runs(&self) -> impl Iterator<Item = (u32, u32)> {
        let (mut rest, mut end) = (&*self.0, 0_u32);
        iter::from_fn(move || {
            let gap = unzigzag(take(&mut rest)?);
            let len = u32::try_from(take(&mut rest)?).ok()?;
            let start = u32::try_from(i64::from(end) + gap).ok()?;
            end = start.wrapping_add(len);
            Some((start, len))
        })
    }

    /// The size in bytes.
    pub(super) fn bytes(&self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.len() + ALLOCATION }
    }
}

/// [`Runs`] under construction.
#[derive(Debug, Default)]
pub(super) struct RunsSoFar {
    bytes: Vec<u8>,
    /// The end of the last run that was written.
    end: u32,
    /// The run that may continue: its first number and its length.
    run: (u32, u32),
}

impl RunsSoFar {
    /// Adds `count` consecutive numbers.
    pub(super) fn push(&mut self, number: u32, count: u32) {
        let (start, len) = self.run;
        if len > 0 && start.checked_add(len) == Some(number) {
            self.run.1 += count;
        } else {
            self.write();
            self.run = (number, count);
        }
    }

    /// The finished list.
    pub(super) fn done(mut self) -> Runs {
        self.write();
        Runs(self.bytes.into())
    }

    fn write(&mut self) {
        let (start, len) = self.run;
        if len == 0 {
            return;
        }
        if self.bytes.is_empty() {
            self.bytes.reserve(USUAL);
        }
        put(zigzag(i64::from(start) - i64::from(self.end)), &mut self.bytes);
        put(u64::from(len), &mut self.bytes);
        self.end = start.wrapping_add(len);
    }
}

/// Mostly small numbers: scores.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Numbers(Box<[u8]>);

impl Numbers {
    /// Packs these numbers. Usually each is one byte: this is checked for all of them, and all are written, without
    /// a branch for each.
    pub(super) fn of(numbers: impl ExactSizeIterator<Item = i32> + Clone) -> Self {
        if numbers.clone().fold(0, |bits, number| bits | narrow_zigzag(number)) < ONE_BYTE {
            #[expect(clippy::cast_possible_truncation, reason = "all are below 128")]
            return Self(numbers.map(|number| narrow_zigzag(number) as u8).collect());
        }
        let mut bytes = Vec::with_capacity(2 * numbers.len());
        numbers.for_each(|number| put(u64::from(narrow_zigzag(number)), &mut bytes));
        Self(bytes.into())
    }

    /// The numbers in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = i32> {
        let mut rest = &*self.0;
        iter::from_fn(move || i32::try_from(unzigzag(take(&mut rest)?)).ok())
    }

    /// The size in bytes.
    pub(super) fn bytes(&self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.len() + ALLOCATION }
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// Zigzag encoding of 32-bit numbers, which the compiler can vectorize.
fn narrow_zigzag(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn put(number: u64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(byte) if number < u64::from(ONE_BYTE) => out.push(byte),
        _ => prost::encoding::encode_varint(number, out),
    }
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Only reads what was written here: the data ends after the last number.
    (!bytes.is_empty()).then(|| prost::encoding::decode_varint(bytes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            positions in prop::collection::vec(any::<u32>(), 0..50),
            scores in prop::collection::vec(any::<i32>(), 0..50),
        ) {
            let runs = Runs::of(positions.iter().copied());
            prop_assert_eq!(runs.count(), positions.len() as u64);
            prop_assert_eq!(runs.iter().collect::<Vec<_>>(), positions);
            prop_assert_eq!(Numbers::of(scores.iter().copied()).iter().collect::<Vec<_>>(), scores);
        }
    }

    #[test]
    fn what_is_usual_takes_little() {
        assert!(Runs::of(1000..6000).0.len() <= 4, "a rotated list of nodes");
        assert!(Runs::of([4998, 4999, 0, 1, 2]).0.len() <= 6);
        assert_eq!(Numbers::of([0, 10, 63, -64].into_iter()).0.len(), 4, "usual scores");
        assert_eq!(
            Numbers::of([0, 10, 64, -65].into_iter()).0.len(),
            6,
            "large ones take more themselves alone"
        );
    }
}
