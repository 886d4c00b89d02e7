/// Numbers as good as random, the same for the same seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// A die that has not been thrown.
    pub fn new(seed: u64) -> Self {
        // Small seeds would begin with small numbers.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below this.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }

    /// One of these, if there are any.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(all.len() as u64)).unwrap_or(0);
        all.get(at)
    }
}
