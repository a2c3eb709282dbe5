//! A backend's weight: a whole number that cannot be out of range.

use std::fmt;
use std::num::NonZeroU32;

/// How much a backend's scores count: a whole number from 1 to 1,000,000. Default 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The weight of a backend whose file does not say one.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The largest weight: 1,000,000.
    pub const LARGEST: u32 = 1_000_000;

    /// Takes a number from 1 to [`Weight::LARGEST`]; `None` for every other.
    pub fn new(number: i128) -> Option<Self> {
        let number = u32::try_from(number).ok().filter(|number| *number <= Self::LARGEST)?;
        NonZeroU32::new(number).map(Self)
    }

    /// The number, 1 to 1,000,000.
    pub fn value(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
