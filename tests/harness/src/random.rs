//! Pseudorandom numbers that are the same in every run.

/// The letters and digits that Kubernetes takes for generated names: no vowels, so no words.
/// Mirrors `alphanums` of k8s.io/apimachinery/pkg/util/rand.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A `SplitMix64` generator: small, good enough for names, and determined by its seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The five characters that end a generated name. Mirrors `SimpleNameGenerator.GenerateName` of
    /// k8s.io/apiserver.
    pub fn suffix(&mut self) -> String {
        (0..5).map(|_| self.letter()).collect()
    }

    /// A UID in its usual form.
    pub fn uid(&mut self) -> String {
        let (high, low) = (self.bits(), self.bits());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }

    fn letter(&mut self) -> char {
        let letters = NAME_LETTERS.len() as u64;
        let place = usize::try_from(self.bits() % letters).expect("a remainder of 27 fits");
        char::from(NAME_LETTERS[place])
    }
}
